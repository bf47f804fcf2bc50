"""Knowledge distillation: the teacher, its outputs on disk, the loss of the student, and the recipe of a run."""

"""Cards of question answering."""

from __future__ import annotations

from bertkit.sharing.kinds import Shared, shared
from bertkit.tasks.question_answering.task import QuestionAnsweringTask


class SharedQuestionAnswering(Shared):
    def window_note(self) -> str:
        data = self.task.data
        return (
            f"Contexts of any length: windows of {data.max_seq_length} tokens that share {data.doc_stride}; the answer "
            "is the best one of all windows."
        )


@shared.register
def _(task: QuestionAnsweringTask) -> Shared:
    return SharedQuestionAnswering(task)

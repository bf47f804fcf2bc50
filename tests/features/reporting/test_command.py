"""``bertkit report``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

from bertkit import finetune

FEW = {
    "data.max_seq_length": 16,
    "train.max_steps": 2,
    "train.logging_steps": 1,
    "train.eval_strategy": "no",
    "train.save_strategy": "no",
    "train.load_best_model_at_end": False,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


def test_the_path_is_printed(bertkit, checkpoint, tmp_path: Path):
    rows = [f"the {noun} is {word},{word}" for noun in ("film", "plot") for word in ("lovely", "awful")]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows * 6]) + "\n")
    values = {**FEW, "data.train_file": str(tmp_path / "rows.csv")}
    run = finetune("classification", model=str(checkpoint), output_dir=tmp_path / "run", overrides=values).output_dir
    done = bertkit("report", run, "--json")
    assert (done.code, json.loads(done.out)) == (0, {"report": str(run / "report.html")})
    done = bertkit("report", run, "--no-texts", "--output", tmp_path / "public.html")
    assert (done.code, done.out) == (0, f"{tmp_path / 'public.html'}\n")
    assert "the film is" in (run / "report.html").read_text()
    assert "the film is" not in (tmp_path / "public.html").read_text()
    bertkit("report", run, "--output", tmp_path / "public.html").refuses("already exists")


def test_a_folder_without_a_run_is_refused(bertkit, tmp_path: Path):
    bertkit("report", tmp_path).refuses(f"{tmp_path}: contains no recipe.yaml and no run.json")
    assert list(tmp_path.iterdir()) == []

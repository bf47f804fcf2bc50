"""``bertkit report``: what it prints, and what it refuses."""

from __future__ import annotations

import json


def test_the_path_is_printed(bertkit, copied, tmp_path):
    run = copied()
    done = bertkit("report", run, "--json")
    assert (done.code, json.loads(done.out)) == (0, {"report": str(run / "report.html")})
    done = bertkit("report", run, "--no-texts", "--output", tmp_path / "public.html")
    assert (done.code, done.out) == (0, f"{tmp_path / 'public.html'}\n")
    assert "Wrong predictions" in (run / "report.html").read_text()
    assert "Wrong predictions" not in (tmp_path / "public.html").read_text()
    bertkit("report", run, "--output", tmp_path / "public.html").refuses("already exists")


def test_a_folder_without_a_run_is_refused(bertkit, tmp_path):
    bertkit("report", tmp_path).refuses(f"{tmp_path}: contains no recipe.yaml and no run.json")
    assert list(tmp_path.iterdir()) == []

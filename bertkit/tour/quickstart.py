"""Complete pipeline on synthetic text: tokenizer → pre-trained BERT → fine-tuned classifier → predictions."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.tour import grammar

if TYPE_CHECKING:
    from bertkit.training.run_directory import Run

MADE_UP = "The data are made up by a small grammar; the scores say nothing about real text."
_SEED = 42
_DOCUMENTS = 3000
_FEW, _MANY = 64, 400
# Adjectives per class in the labelled training sentences; the others are in the documents and the dev sentences.
_LABELLED_ADJECTIVES = 8

_EXAMPLES = (
    "what a hideous song !",
    "the cake was marvellous .",
    "Nora called the chapter bleak .",
    "a glorious goal , and a fine match .",
)


@dataclass(frozen=True)
class Tour:
    """Results of a quickstart.

    Attributes:
        output_dir: folder of ``text/``, ``pretrained/``, ``finetuned/`` and ``from-scratch/``.
        pretraining: results of pre-training on held-out documents; losses in nats, accuracies in [0, 1].
        first_masked_lm_loss: first logged masked LM loss of the training, in nats.
        finetuned: dev accuracy of the pre-trained BERT after fine-tuning on ``labelled`` sentences, in [0, 1].
        from_scratch: dev accuracy of the same model, fine-tuned without pre-training, in [0, 1].
        labelled: number of labelled training sentences of both.
        predictions: predictions of the fine-tuned BERT for a few new sentences.
        seconds: total wall time.
    """

    output_dir: Path
    pretraining: dict[str, float]
    first_masked_lm_loss: float
    finetuned: float
    from_scratch: float
    labelled: int
    predictions: list[dict[str, Any]]
    seconds: float


def quickstart(output_dir: str | Path = "bertkit-quickstart") -> Tour:
    """Runs the complete pipeline on synthetic text: about two minutes on two cores, without network or data.

    Args:
        output_dir: a new or empty folder.

    Raises:
        OutputError: the folder is in use.
    """
    from bertkit.checkpoint.load import new_weights
    from bertkit.inference.predictor import load
    from bertkit.progress import say
    from bertkit.training.finetune import finetune
    from bertkit.training.pretrain import pretrain
    from bertkit.training.run_directory import check_output_dir

    started = time.monotonic()
    output_dir = Path(output_dir)
    check_output_dir(output_dir, resume=False)
    say(f"1/4 writing {_DOCUMENTS} documents and {_FEW} labelled sentences; {MADE_UP}")
    text, labelled = output_dir / "text", output_dir / "labelled"
    write_data(text, labelled)
    say("2/4 pre-training a tiny BERT on the documents: masked words and next sentences")
    pretrained = pretrain("quickstart/pretrain", corpus=[text], output_dir=output_dir / "pretrained", card_note=MADE_UP)
    say(f"3/4 fine-tuning it on the {_FEW} labelled sentences: is the verdict kind?")
    given: dict[str, Any] = {"model": str(output_dir / "pretrained"), "data_dir": labelled, "card_note": MADE_UP}
    finetuned = finetune("quickstart/finetune", output_dir=output_dir / "finetuned", **given)
    say("4/4 the same from scratch: new weights, the same tokenizer and sentences")
    scratch = new_weights(output_dir / "pretrained", output_dir / "new-weights", _SEED)
    from_scratch = finetune(
        "quickstart/finetune", output_dir=output_dir / "from-scratch", **{**given, "model": str(scratch)}
    )
    predictions = load(output_dir / "finetuned").predict(list(_EXAMPLES))
    return Tour(
        output_dir=output_dir,
        pretraining={key: value for key, value in pretrained.metrics.items() if key.startswith("eval_")},
        first_masked_lm_loss=_first_masked_lm_loss(pretrained),
        finetuned=finetuned.metrics["eval_accuracy"],
        from_scratch=from_scratch.metrics["eval_accuracy"],
        labelled=_FEW,
        predictions=[{"text": text, **row} for text, row in zip(_EXAMPLES, predictions, strict=True)],
        seconds=time.monotonic() - started,
    )


def write_data(text: Path, labelled: Path) -> None:
    """Writes ``text/documents.txt`` (one sentence per line) and ``labelled/{train,dev}.tsv`` in GLUE's layout."""
    text.mkdir(parents=True)
    labelled.mkdir(parents=True)
    documents = grammar.write_documents(_DOCUMENTS, _SEED)
    (text / "documents.txt").write_text("\n\n".join("\n".join(document) for document in documents) + "\n")
    some = (grammar.KIND[:_LABELLED_ADJECTIVES], grammar.UNKIND[:_LABELLED_ADJECTIVES])
    others = (grammar.KIND[_LABELLED_ADJECTIVES:], grammar.UNKIND[_LABELLED_ADJECTIVES:])
    for name, number, seed, adjectives in (("train", _FEW, _SEED, some), ("dev", _MANY, _SEED + 1, others)):
        rows = [f"{row.text}\t{row.label}" for row in grammar.write_labelled(number, seed, adjectives)]
        (labelled / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")


def _first_masked_lm_loss(run: Run) -> float:
    history = json.loads((run.output_dir / "trainer_state.json").read_text())["log_history"]
    return float(next(entry["masked_lm_loss"] for entry in history if "masked_lm_loss" in entry))


def report(tour: Tour, *, as_json: bool = False) -> str:
    """Formats the output of the command: a readable table, or one JSON object."""
    if as_json:
        return json.dumps({**asdict(tour), "output_dir": str(tour.output_dir)})
    held_out = tour.pretraining
    folder = tour.output_dir
    width = max(len(row["text"]) for row in tour.predictions)
    rows = "\n".join(
        f"  {row['text']:<{width}}  {row['label']:<7} {row['probability']:.2f}" for row in tour.predictions
    )
    return f"""
{MADE_UP}

Pre-training (held-out documents)
  masked LM loss           {tour.first_masked_lm_loss:.2f} at first, {held_out["eval_masked_lm_loss"]:.2f} now
  masked LM accuracy       {held_out["eval_masked_lm_accuracy"]:.2f}
  next sentence accuracy   {held_out["eval_next_sentence_accuracy"]:.2f} (chance 0.50)

Is a verdict kind? {tour.labelled} labelled sentences; tested on adjectives that never were labelled
  pre-trained BERT         {tour.finetuned:.2f}
  same model from scratch  {tour.from_scratch:.2f} (chance 0.50)

Predictions of the fine-tuned BERT
{rows}

All of it took {tour.seconds:.0f} seconds. Ask it yourself:
  bertkit predict {folder}/finetuned "the opera was superb ."

With real data:
  bertkit pretrain --recipe bert-mini --vocab-size 8000 --corpus TEXT_FOLDER --output-dir my-bert
  bertkit finetune glue --task sst2 --model my-bert --data-dir GLUE_FOLDER --output-dir my-sst2
  bertkit predict my-sst2 "a gripping, funny and moving film\""""

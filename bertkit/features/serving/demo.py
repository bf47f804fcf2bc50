"""``bertkit demo``: serves the gradio page of a checkpoint until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from bertkit.features.serving.served import View, served
from bertkit.features.serving.server import As, listening, run_app, use_of
from bertkit.inference.abstaining import promise
from bertkit.inference.loaded import LoadedCheckpoint, load
from bertkit.inference.options import PredictOptions
from bertkit.inference.predictor import Predictor
from bertkit.recipe.files import run_name, without_paths
from bertkit.runtime.errors import BertkitError, importing
from bertkit.runtime.features import module_about
from bertkit.runtime.markdown import escape
from bertkit.runtime.placement.inference import Precision
from bertkit.runtime.progress import unreported
from bertkit.tasks.base import Task
from bertkit.tasks.registry import load_recipe, task_of_recipe
from bertkit.tasks.splits import hub_dataset

if TYPE_CHECKING:
    from bertkit.features.serving.explain import Inside

# With this header the browser blocks everything that the page loads from other hosts.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'self' https://huggingface.co"
)
_SHUTDOWN = 5  # seconds; a page keeps a connection open
_LONGEST = 20_000  # characters of a text box
_EXAMPLES = 5
_LONGEST_EXAMPLE = 2000  # characters
_ALL, _NONE_UNSURE = "every text", PredictOptions()  # no answer is left out
_LEVELS = (0.2, 0.1, 0.05, 0.02)  # shares of wrong answers to choose from
_FONT = ["system-ui", "sans-serif"]  # gradio's own themes load fonts from another host
_MONOSPACE = ["ui-monospace", "monospace"]
Computed = TypeVar("Computed")


def demo(
    checkpoint: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 7860,
    as_: As | None = None,
    device: Literal["auto", "cpu"] = "auto",
    precision: Precision = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    allowed_hosts: str | Sequence[str] = (),
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serves a page for a checkpoint until SIGTERM or Ctrl-C.

    The page shows the probabilities of labels as bars, entities and answers marked in their text, the tokens for masks,
    or the similarity of two sentences; its examples are texts of the run's validation set, or of its table if the rows
    were scored by folds. The tab "Inside" has what words add to a prediction, or what a pre-trained checkpoint fills
    in. Of a run whose rows were scored by folds, one can choose how many of the answers may be wrong. It sends nothing
    to other hosts and loads nothing from them.

    Args:
        checkpoint: a run directory, a folder or a Hub id.
        host: address to listen on; the default accepts connections of this machine only.
        port: port to listen on; 0 takes a free one.
        as_: as for `bertkit.serve`.
        device, precision, revision, trust_remote_code: as for `bertkit.load`.
        allowed_hosts: as for `bertkit.serve`; but all names if none is given and ``host`` is ``0.0.0.0`` or ``::``.
        ready: called with the address when connections are accepted.

    Raises:
        RecipeError: the extra ``demo`` is missing, the address cannot be listened on, ``as_`` is another word, or an
            allowed host is no name.
        CheckpointError: the checkpoint cannot be loaded.
        PlacementError: the device or the precision is impossible.

    Examples:
        ```python
        bertkit.demo("my-reviews", port=7860)  # until Ctrl-C
        ```
    """
    with importing("demo:", "demo"):
        import gradio  # noqa: F401
    with listening(host, port) as listener:
        from bertkit.features.serving.connections import Hosts

        address = listener.getsockname()[0]
        # A page on all interfaces is public, as on a Space, whose name is not known here.
        public = ip_address(address.partition("%")[0]).is_unspecified and not allowed_hosts
        hosts = Hosts(host, address, ["*"] if public else allowed_hosts)
        loaded = load(
            checkpoint, device=device, precision=precision, revision=revision, trust_remote_code=trust_remote_code
        )
        app = build_demo(loaded, run_name(checkpoint), as_)
        run_app(app, listener, f"page for {checkpoint}: {{address}}; Ctrl-C ends it", hosts, _SHUTDOWN, ready)


def build_demo(loaded: LoadedCheckpoint, name: str, as_: As | None = None) -> Any:
    """Returns the ASGI application with the page at ``/``, titled with the ``name`` of the checkpoint."""
    import gradio
    from fastapi import FastAPI

    use = use_of(loaded, as_)
    form = form_of(loaded, use)
    about = module_about(__package__, "explain")
    inside = None if about is None else about.inside_of(loaded, use, form.fields, form.examples)
    page = build_page(form, name, inside)
    app = FastAPI(openapi_url=None)

    @app.middleware("http")
    async def with_policy(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = _POLICY
        return response

    return gradio.mount_gradio_app(app, page, path="/", theme=page.theme, footer_links=[])


class Form(NamedTuple):
    """Inputs, computation and outputs of a page.

    Attributes:
        title: name of the task.
        fields: labels of the text boxes.
        view: computes the prediction for their texts.
        examples: texts to click on.
        shows: the part of a view that is shown besides its title.
        choices: other computations of the prediction to choose from, by what they are called.
    """

    title: str
    fields: Sequence[str]
    view: Callable[[Sequence[str]], View]
    examples: Sequence[Sequence[str]]
    shows: Literal["line", "bars", "marks"] = "line"
    choices: Mapping[str, Callable[[Sequence[str]], View]] = {}


def form_of(loaded: LoadedCheckpoint, use: str) -> Form:
    """Returns the form of a checkpoint.

    Args:
        loaded: the checkpoint.
        use: ``predict``, ``fill-mask`` or ``embed``, as `bertkit.features.serving.server.use_of` decides.
    """
    if use == "predict":
        return _describe_task(loaded.predictor)
    if use == "fill-mask":
        mask = loaded.mask_filler.tokenizer.mask_token

        def fill(texts: Sequence[str]) -> View:
            first = loaded.fill_mask(texts[0], top_k=5)[0]
            best = [guesses[0] for guesses in first]
            bars = {guess.token: guess.probability for guess in first[0]}
            return View(best[0].text if len(best) == 1 else ", ".join(guess.token for guess in best), bars)

        return Form("masked words", [f"text with {mask}"], fill, [[f"The capital of France is {mask}."]], "bars")

    def compare(texts: Sequence[str]) -> View:
        one, other = loaded.embed(list(texts))
        return View(f"cosine similarity {float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other))):.4f}")

    return Form("similarity of sentences", ["sentence", "other sentence"], compare, [])


def _describe_task(predictor: Predictor) -> Form:
    """Returns the form of a fine-tuned checkpoint, with a choice of the shares of errors that its rows support."""
    task = served(predictor.task)

    def view(texts: Sequence[str], options: PredictOptions = _NONE_UNSURE) -> View:
        columns = task.columns([task.input_of(texts)])
        (prediction,) = options.mark_unsure(predictor.predict_columns(columns, unreported))
        return task.view(prediction, texts)

    choices = {}
    with suppress(BertkitError):  # a run that does not support a share does not support a smaller one
        for level in _LEVELS:
            configured = PredictOptions(max_error=level).configure(predictor.task)
            kept = promise(predictor.name, configured.settings.label_names, level)
            name = f"at most {100 * level:g} % of answers wrong (answers about {100 * kept.answered:.0f} % of texts)"
            choices[name] = partial(view, options=PredictOptions(unsure_below=kept.unsure_below))
    title = f"{task.task.name}: {task.task.pipeline_tag}"
    return Form(title, task.fields, view, examples_of_run(predictor.name, predictor.task), task.shows, choices)


def examples_of_run(checkpoint: str, task: Task) -> list[list[str]]:
    """Returns the texts of up to five examples of a run's validation set, if it is still on this machine.

    Of a run whose rows were scored by folds they are rows of its table, those that a run without folds would hold out.
    The list is empty for a checkpoint without a recipe, for data from the Hub, for files that are gone, and for a table
    with too few rows to hold one out.
    """
    path = Path(checkpoint) / "recipe.yaml"
    if not path.is_file():
        return []
    try:
        of_run = task_of_recipe(load_recipe(str(path)))
        if hub_dataset(of_run) is not None and getattr(of_run.data, "data_dir", None) is None:
            return []
        _, splits = of_run.load(["validation"])
        examples = splits["validation"].examples[: _EXAMPLES * 4]
        rows = [served(task).texts_of(examples, row) for row in range(len(next(iter(examples.values()))))]
    except (BertkitError, OSError, KeyError, StopIteration):
        return []
    return [row for row in rows if all(0 < len(text.strip()) <= _LONGEST_EXAMPLE for text in row)][:_EXAMPLES]


def build_page(form: Form, name: str, inside: Inside | None = None) -> Any:
    """Returns the page as gradio ``Blocks``, which load nothing from other hosts."""
    import gradio

    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # for telemetry that does not ask the page
    theme = gradio.themes.Default(font=_FONT, font_mono=_MONOSPACE)
    with gradio.Blocks(title=name, analytics_enabled=False) as page:
        gradio.Markdown(f"# {escape(name)}\n{escape(form.title)}")
        if inside is None:
            _add_prediction(form)
        else:
            with gradio.Tab("Prediction"):
                boxes = _add_prediction(form)
            with gradio.Tab("Inside", id="inside") as tab:
                others = _add_boxes(inside.fields, "inside-text")
                button = gradio.Button("Show the inside", variant="primary", elem_id="show-inside")
                frame = gradio.HTML(elem_id="inside")

                def show(*texts: str) -> str:
                    return _compute(lambda: inside.html(texts), texts[:-1] if inside.can_be_empty else texts)

                _connect(show, button, others, [frame], inside.examples)
            if len(boxes) == len(others):  # the texts of the prediction
                tab.select(
                    lambda *texts: list(texts) if len(texts) > 1 else texts[0], boxes, others, api_visibility="private"
                )
    page.theme = theme
    return page


def _add_prediction(form: Form) -> list[Any]:
    """Adds the boxes, the button and the outputs of a prediction; returns the boxes."""
    import gradio

    boxes = _add_boxes(form.fields, "text")
    views = {_ALL: form.view, **form.choices}
    choice = gradio.Radio(list(views), value=_ALL, label="answer", elem_id="answer", visible=bool(form.choices))
    button = gradio.Button("Predict", variant="primary", elem_id="predict")
    outputs = [gradio.Textbox(label="prediction", interactive=False, elem_id="prediction")]
    if form.shows == "bars":
        outputs.append(gradio.Label(label="probabilities", elem_id="bars", show_heading=False))
    if form.shows == "marks":
        outputs.append(gradio.HighlightedText(label="in the text", elem_id="marks", show_inline_category=True))

    def predict(*given: str) -> Any:
        *texts, chosen = given
        view = _compute(lambda: views[chosen](texts), texts)
        if form.shows == "line":
            return view.title
        return view.title, dict(view.bars) if form.shows == "bars" else cut_at_marks(view)

    _connect(predict, button, boxes, outputs, form.examples, [choice])
    return boxes


def _add_boxes(fields: Sequence[str], name: str) -> list[Any]:
    import gradio

    return [
        gradio.Textbox(label=field, lines=6 if field == "context" else 2, max_length=_LONGEST, elem_id=f"{name}-{at}")
        for at, field in enumerate(fields)
    ]


def _connect(
    compute: Callable[..., Any],
    button: Any,
    boxes: list[Any],
    outputs: list[Any],
    examples: Sequence[Sequence[str]],
    others: Sequence[Any] = (),
) -> None:
    """Lets a button and the last box compute from the boxes and other inputs, and shows examples below."""
    import gradio

    for asks in (button.click, boxes[-1].submit):
        asks(compute, [*boxes, *others], outputs, api_visibility="private")
    if examples:
        gradio.Examples([list(each) for each in examples], boxes)


def _compute(compute: Callable[[], Computed], texts: Sequence[str]) -> Computed:
    """Returns what is computed of texts, none of which may be empty; shows faults on the page."""
    import gradio

    if not all(text.strip() for text in texts):
        raise gradio.Error("Write a text first.", print_exception=False)
    try:
        return compute()
    except BertkitError as error:  # a page shows no folders of its machine
        raise gradio.Error(without_paths(str(error)), print_exception=False) from None


def cut_at_marks(view: View) -> list[tuple[str, str | None]]:
    """Returns the pieces of a text, each with its label or ``None``.

    >>> from bertkit.features.serving.served import Mark
    >>> cut_at_marks(View("", text="Ada lives in Rome.", marks=[Mark(0, 3, "PER"), Mark(13, 17, "LOC")]))
    [('Ada', 'PER'), (' lives in ', None), ('Rome', 'LOC'), ('.', None)]
    """
    pieces: list[tuple[str, str | None]] = []
    text, done = view.text or "", 0
    for mark in view.marks:
        pieces += [(text[done : mark.start], None), (text[mark.start : mark.end], mark.label)]
        done = mark.end
    return [piece for piece in [*pieces, (text[done:], None)] if piece[0]]

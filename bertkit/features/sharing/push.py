"""``bertkit push``: uploads a checkpoint to the Hub, in a form that loads everywhere and without local paths.

The files are assembled in a temporary folder, from a fixed list, and uploaded as one commit: the repository is either
unchanged or complete, and the local checkpoint is only read. A Space with the page of ``bertkit demo`` may go with it.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

from bertkit.features.sharing.model_card import recorded_facts
from bertkit.features.sharing.push_files import (
    EVAL_RESULTS,
    benchmark_task,
    validate_card,
    write_eval_results,
    write_push,
)
from bertkit.inference.networks import refuse_ensemble
from bertkit.recipe.settings import Form, HubSettings
from bertkit.runtime.errors import BertkitError, HubError, RecipeError
from bertkit.runtime.files import disk_faults, readable_size
from bertkit.runtime.json_text import dumps
from bertkit.runtime.options import several
from bertkit.runtime.progress import counted
from bertkit.runtime.version import __version__

# Files of an earlier checkpoint are deleted: its weights might be loaded in place of the new ones, and its scores be
# taken for theirs. All other files of a repository belong to its owner.
_OF_A_CHECKPOINT = re.compile(
    r"(model|pytorch_model|tf_model|flax_model)(-\d+-of-\d+)?\.(safetensors|bin|h5|msgpack)(\.index\.json)?"
    r"|(configuration|modeling|loss|labels|features|left_to_right|reading)_bert\.py|config\.json|recipe\.yaml"
    r"|(all|eval)_results\.json|report\.html|modules\.json|sentence_bert_config\.json|1_Pooling/config\.json"
    r"|\.eval_results/bertkit\.yaml|tokenizer(_config)?\.json|special_tokens_map\.json|added_tokens\.json"
    r"|vocab\.(txt|json)|merges\.txt|(spm|spiece|sentencepiece\.bpe)\.model"
)
_GRADIO = "6.31.0"  # of a Space, if it is not installed here
_SPACE_FILES = ("README.md", "app.py", "requirements.txt")


@dataclass(frozen=True)
class Push:
    """Result of `push`.

    Attributes:
        url: address of the repository.
        commit: the new commit, or the last one if nothing has changed.
        private: whether the repository is private.
        files: names of the pushed files.
        notes: warnings.
        space: address of the Space, if one was pushed.
    """

    url: str
    commit: str
    private: bool
    files: tuple[str, ...]
    notes: tuple[str, ...]
    space: str | None = None

    def __str__(self) -> str:
        seen = "private" if self.private else "public"
        notes = "".join(f"\nnote: {note}" for note in self.notes)
        space = f"\nSpace: {self.space}" if self.space else ""
        return f"{self.url} ({seen}): {', '.join(self.files)}{space}{notes}"


@dataclass(frozen=True)
class PlannedPush:
    """Result of `push` with ``dry_run``: what would be pushed.

    Attributes:
        repo_id: the repository.
        files: name → size in bytes.
        card: text of the model card; empty without one.
        missing: what is missing for the push, a sentence each.
        notes: warnings.
    """

    repo_id: str
    files: dict[str, int]
    card: str
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        width = max(map(len, self.files), default=0)
        files = [f"  {name:<{width}}  {readable_size(size)}" for name, size in self.files.items()]
        total = f"{counted(len(self.files), 'file')}, {readable_size(sum(self.files.values()))}"
        card = ["model card:", *(f"  {line}".rstrip() for line in self.card.splitlines())] if self.card else []
        missing = [f"missing: {sentence}" for sentence in self.missing]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([f"{self.repo_id}: {total}; nothing is pushed", *files, *card, *notes, *missing])


def push(
    checkpoint: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    as_: Form = "bert",
    license: str | None = None,
    language: str | Sequence[str] = (),
    report: bool | None = None,
    space: str | None = None,
    dry_run: bool = False,
) -> Push | PlannedPush:
    """Pushes a checkpoint to a model repository of the Hub; local files are not changed.

    The token is that of ``hf auth login`` or of the environment variable ``HF_TOKEN``. The pushed files are the
    weights, ``config.json``, the tokenizer and, for a run, its model card, its results, its report and its recipe, with
    paths reduced to their last part. A card that was edited is pushed as it is, if its metadata are valid and its
    results are those of the run. The same commit deletes weights, code, tokenizer, scores, report and recipe of an
    earlier checkpoint that are not pushed again; all other files of the repository stay, figures too.

    Args:
        checkpoint: a run directory or a folder with a checkpoint.
        repo_id: ``owner/name``, or ``name`` for the user's own; created if it does not exist.
        private: create the repository as private; by default the Hub decides, which makes it public unless the
            organization has another default.
        revision: the branch; created if it does not exist.
        as_: ``bert`` pushes what `bertkit.export` writes, after the same comparison; ``bertkit`` includes the code of
            bertkit's classes, for ``trust_remote_code=True``, as a head of another package is in any case.
        license: license in the model card; ``None`` takes the one of the run's recipe.
        language: languages of the texts in the model card; empty takes those of the run's recipe.
        report: push ``report.html`` and its figures; ``None`` takes ``hub.report`` of the run's recipe.
        space: ``owner/name`` of a Space to push too, with the page of `bertkit.demo` for the repository; created if it
            does not exist. ``None`` pushes none.
        dry_run: write the files and the card to a temporary folder, and push nothing; needs no token and no Hub.

    Returns:
        The repository, its commit and the pushed files; with ``dry_run`` the files, the card and what is missing.

    Raises:
        HubError: the upload failed; the message has the command that tries again.
        BertkitError: the checkpoint or an argument is not usable.

    Examples:
        ```python
        push = bertkit.push("my-reviews", "ada/my-reviews", dry_run=True)  # what would be pushed; without dry_run it is
        print(push.files)
        ```
    """
    from huggingface_hub import HfApi

    if as_ not in get_args(Form):
        raise RecipeError(f"--as {as_}: expected {' or '.join(get_args(Form))}")
    try:
        settings = HubSettings(
            license=license,
            language=several(language),
            private=private,
            revision=revision,
            form=as_,
            report=report is not False,
        )
    except ValueError as error:
        raise RecipeError(f"push: {error}") from error
    refuse_ensemble(str(checkpoint))
    _check_name(repo_id)
    if space is not None:
        _check_name(space)
        if revision is not None:
            raise RecipeError(f"--space {space}: its page loads the branch main; remove --revision")
    if dry_run:
        return _plan(checkpoint, repo_id, settings, report, space)
    with hub_faults(repo_id, _write_command(checkpoint, repo_id, settings, space)):
        repo_id = repo_id if "/" in repo_id else f"{HfApi().whoami()['name']}/{repo_id}"
    with tempfile.TemporaryDirectory(prefix="bertkit-push-") as folder:
        with disk_faults(Path(folder)):
            notes = write_push(str(checkpoint), Path(folder), repo_id, settings, report)
        with hub_faults(repo_id, _write_command(checkpoint, repo_id, settings, space)):
            if (card := Path(folder) / "README.md").is_file():
                validate_card(card.read_text(encoding="utf-8"), f"{checkpoint}/README.md")
            write_eval_results(Path(checkpoint), Path(folder))
            pushed = _upload(Path(folder), repo_id, settings, notes)
    if space is None:
        return pushed
    with hub_faults(space, _write_command(checkpoint, repo_id, settings, space)):
        address = _push_space(repo_id, space, private=private, license=license)
    if pushed.private:
        hidden = f"{repo_id} is private: give the Space a secret HF_TOKEN that can read it"
        pushed = replace(pushed, notes=(*pushed.notes, hidden))
    return replace(pushed, space=address)


def _plan(
    checkpoint: str | Path, repo_id: str, settings: HubSettings, report: bool | None, space: str | None
) -> PlannedPush:
    """Returns what a push would send, by writing it to a temporary folder; files that need the Hub are notes."""
    from huggingface_hub import get_token

    missing = [
        f"the owner in the name: give OWNER/{name}; without it your own name is taken after a login"
        for name in (repo_id, space)
        if name is not None and "/" not in name
    ]
    if get_token() is None:
        missing.append("a token of the Hub: run `hf auth login`, or set HF_TOKEN")
    with tempfile.TemporaryDirectory(prefix="bertkit-push-") as name:
        folder = Path(name)
        with disk_faults(folder):
            notes = write_push(str(checkpoint), folder, repo_id, settings, report)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
        card = folder / "README.md"
        text = card.read_text(encoding="utf-8") if card.is_file() else ""
    if benchmark_task(recorded_facts(Path(checkpoint))) is not None:
        notes = (*notes, f"a push also writes {EVAL_RESULTS}, after a look at the data set on the Hub")
    if space is not None:
        notes = (*notes, f"a push also writes {', '.join(_SPACE_FILES)} to the Space {space}")
    return PlannedPush(repo_id, sizes, text, tuple(missing), notes)


def push_finished_run(output_dir: Path, repo_id: str, hub: HubSettings) -> Push:
    """Pushes a finished run as its recipe's ``hub`` block says.

    Raises:
        HubError: the push failed for any reason; the message has the command that tries again.
    """
    try:
        pushed = push(output_dir, repo_id, private=hub.private, revision=hub.revision, as_=hub.form, report=hub.report)
        assert isinstance(pushed, Push)
        return pushed
    except HubError:
        raise
    except (BertkitError, OSError) as error:
        # Licence and language are recorded in the run.
        again = _again(_write_command(output_dir, repo_id, replace(hub, license=None, language=[])))
        raise HubError(f"{repo_id}: the push failed before anything was sent: {error}{again}") from error


def check_login(repo_id: str) -> None:
    """Checks the token with the Hub, before hours are spent on a run that is to be pushed.

    Raises:
        HubError: there is no token, it is not accepted, or the Hub cannot be reached.
        RecipeError: no repository can have the name.
    """
    from huggingface_hub import HfApi

    _check_name(repo_id)
    with hub_faults(repo_id, None):
        HfApi().whoami()


def _check_name(repo_id: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise RecipeError(f"{repo_id}: not a valid repository name; expected owner/name ({error})") from error


def _upload(folder: Path, repo_id: str, settings: HubSettings, notes: Sequence[str]) -> Push:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    hub = HfApi()
    new = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    address = hub.create_repo(repo_id, private=settings.private or None, exist_ok=True)
    is_private = bool(hub.repo_info(address.repo_id).private)
    if settings.private and not is_private:
        raise HubError(
            f"{address.repo_id} exists and is public, so nothing was pushed; give another name for a private one, or "
            "remove --private"
        )
    if settings.revision is not None:
        hub.create_branch(address.repo_id, branch=settings.revision, exist_ok=True)
    there = hub.list_repo_files(address.repo_id, revision=settings.revision)
    stale = [name for name in there if _OF_A_CHECKPOINT.fullmatch(name) and name not in new]
    # upload_folder may split a folder into several commits.
    commit = hub.create_commit(
        address.repo_id,
        [*(CommitOperationAdd(name, folder / name) for name in new), *map(CommitOperationDelete, stale)],
        commit_message="Push with bertkit",
        revision=settings.revision,
    )
    return Push(str(address), commit.oid, is_private, tuple(new), tuple(notes))


def _push_space(repo_id: str, space: str, *, private: bool, license: str | None) -> str:
    """Pushes the page of a model repository as one commit, without local paths; other files of the Space stay."""
    from huggingface_hub import CommitOperationAdd, HfApi

    try:
        gradio = version("gradio")
    except PackageNotFoundError:
        gradio = _GRADIO
    hub = HfApi()
    address = hub.create_repo(space, repo_type="space", space_sdk="gradio", private=private or None, exist_ok=True)
    if private and not hub.repo_info(address.repo_id, repo_type="space").private:
        raise HubError(
            f"{address.repo_id} exists and is public, so its page was not pushed; give another name with --space"
        )
    metadata = {
        "title": address.repo_id.rpartition("/")[2],
        "sdk": "gradio",
        "sdk_version": gradio,
        "python_version": "3.11",
        "app_file": "app.py",
        "models": [repo_id],
        **({"license": license} if license else {}),
    }
    front = "".join(f"{key}: {dumps(value)}\n" for key, value in metadata.items())  # JSON values are YAML too
    link = f"[{repo_id}](https://huggingface.co/{repo_id})"
    texts = (
        f"---\n{front}---\n\nA page to try {link}, made by bertkit.\n",
        f'import bertkit\n\nbertkit.demo("{repo_id}", host="0.0.0.0", port=7860)\n',
        f"bertkit[demo]=={__version__}\n",
    )
    additions = [CommitOperationAdd(name, text.encode()) for name, text in zip(_SPACE_FILES, texts, strict=True)]
    hub.create_commit(address.repo_id, additions, commit_message="Push with bertkit", repo_type="space")
    return str(address)


def _again(command: str) -> str:
    return f"\nNo local files are lost. To try again: {command}"


def _write_command(checkpoint: str | Path, repo_id: str, settings: HubSettings, space: str | None = None) -> str:
    """Returns the command that tries again."""
    words = ["bertkit", "push", str(checkpoint), repo_id]
    words += ["--private"] if settings.private else []
    words += ["--revision", settings.revision] if settings.revision else []
    words += ["--as", settings.form] if settings.form != "bert" else []
    words += ["--no-report"] if not settings.report else []
    words += ["--license", settings.license] if settings.license else []
    words += [word for code in settings.language for word in ("--language", code)]
    words += ["--space", space] if space else []
    return shlex.join(words)


_REASONS = {
    401: "the Hub does not accept the token; log in with `hf auth login`, or set HF_TOKEN to your token",
    403: "the token is not allowed to write; it needs write access to {owner}",
    404: "the repository does not exist, or the token has no access to it",
    409: "the repository was changed by someone else at the same time",
}


@contextmanager
def hub_faults(repo_id: str, command: str | None) -> Iterator[None]:
    """Turns errors of the Hub into one clear message without the token.

    Args:
        repo_id: the repository.
        command: the command that tries again, or ``None`` if there is nothing to repeat.

    Raises:
        HubError: in place of the errors of huggingface_hub and the libraries below it.
    """
    from huggingface_hub import get_token
    from huggingface_hub.errors import HTTPError

    token = get_token()
    again = _again(command) if command else ""
    if token is None:
        owner = "" if "/" in repo_id else f"the name has no owner; give OWNER/{repo_id}. Also "
        raise HubError(f"{repo_id}: {owner}you are not logged in; run `hf auth login`, or set HF_TOKEN{again}")
    try:
        yield
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
        status, cause = getattr(response, "status_code", None), error.__cause__ or error
        reason = (str(cause).strip() or type(cause).__name__).split("\n")[0]
        if status in _REASONS:
            reason = _REASONS[status].format(owner=repo_id.partition("/")[0])
        elif status is not None and status >= 500:
            reason = f"the Hub failed to process the request ({reason})"
        elif status is None and not isinstance(error, ValueError):
            reason = f"the connection failed ({reason})"
        what = "the push failed" if command else "a push would fail"
        raise HubError(f"{repo_id}: {what}: {reason.replace(token, '(token)')}{again}") from None

"""``bertkit push``: a checkpoint to the Hub, in a form that loads everywhere, with nothing of this machine in it.

What is pushed is put together in a temporary folder from what is known to be fit for it, and goes up as one commit. So
the repository is either as it was or has everything, and the checkpoint here is only read.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bertkit.checkpoint.encoders import BERT, head_of
from bertkit.checkpoint.load import load_config, load_model, load_tokenizer, save_tokenizer
from bertkit.errors import BertkitError, HubError, RecipeError
from bertkit.progress import without_library_bars
from bertkit.recipe.hub import Form, HubSettings
from bertkit.recipe.yaml_files import read_recipe_file, to_yaml
from bertkit.sharing.export import export_stock
from bertkit.sharing.model_card import CardFacts, model_card, recorded_facts, without_paths

_RESULTS = ("all_results.json", "eval_results.json")
# Files of another checkpoint than the one that is pushed: other weights would be loaded in its place, and other scores
# would be taken for its own. What else a repository has is its owner's.
_OF_A_CHECKPOINT = re.compile(
    r"(model|pytorch_model|tf_model|flax_model)(-\d+-of-\d+)?\.(safetensors|bin|h5|msgpack)(\.index\.json)?"
    r"|(configuration|modeling|loss)_bert\.py|config\.json|recipe\.yaml|(all|eval)_results\.json"
    r"|tokenizer(_config)?\.json|vocab\.txt|special_tokens_map\.json|added_tokens\.json"
)


@dataclass(frozen=True)
class Push:
    """What `push` brought to the Hub.

    Attributes:
        url: of the repository.
        commit: its new commit; the last one where nothing had changed.
        private: whether the repository is private.
        files: what was pushed.
        notes: what is not as it might be, in words.
    """

    url: str
    commit: str
    private: bool
    files: tuple[str, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        seen = "private" if self.private else "public"
        notes = "".join(f"\nnote: {note}" for note in self.notes)
        return f"{self.url} ({seen}): {', '.join(self.files)}{notes}"


def push(
    checkpoint: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    as_: Form = "bert",
    license: str | None = None,
    language: Sequence[str] = (),
) -> Push:
    """Pushes a checkpoint to a model repository of the Hub; what lies here is not changed.

    The token is the Hub's own: that of ``hf auth login`` or of the environment variable ``HF_TOKEN``. Pushed are the
    weights, ``config.json``, the tokenizer and, of a run, its model card, its results and its recipe, in which paths
    are reduced to their last part. Nothing else of the folder is. Such files of a checkpoint that was there before go
    in the same commit; what else the repository has stays.

    Args:
        checkpoint: a run directory or a folder with a checkpoint.
        repo_id: ``owner/name``, or ``name`` of one's own; created if need be.
        private: create the repository as a private one; without it the Hub decides, which makes it public unless the
            organisation says something else.
        revision: the branch; created if need be.
        as_: ``bert``: as `bertkit.export` writes it, after the same comparison; or ``bertkit``: with the code of
            bertkit's classes, for ``trust_remote_code=True``.
        license: for the model card; ``None`` is what the run's recipe says.
        language: of the texts, for the model card; none are those that the run's recipe says.

    Returns:
        What there is on the Hub now.

    Raises:
        HubError: the upload failed; the message has the command that tries again.
        BertkitError: the checkpoint or an argument is not usable.
    """
    from huggingface_hub import HfApi

    try:
        settings = HubSettings(license=license, language=list(language), private=private, revision=revision, form=as_)
    except ValueError as error:
        raise RecipeError(f"push: {error}") from error
    _check_name(repo_id)
    with hub_faults(repo_id, _command(checkpoint, repo_id, settings)):
        repo_id = repo_id if "/" in repo_id else f"{HfApi().whoami()['name']}/{repo_id}"
    with tempfile.TemporaryDirectory(prefix="bertkit-push-") as folder:
        notes = _put_together(str(checkpoint), Path(folder), repo_id, settings)
        with hub_faults(repo_id, _command(checkpoint, repo_id, settings)):
            return _upload(Path(folder), repo_id, settings, notes)


def push_finished_run(output_dir: Path, repo_id: str, hub: HubSettings) -> Push:
    """`push` of a run that has just ended, by its recipe's ``hub`` block.

    Raises:
        HubError: whatever went wrong; the message has the command that tries again.
    """
    try:
        return push(output_dir, repo_id, private=hub.private, revision=hub.revision, as_=hub.form)
    except HubError:
        raise
    except (BertkitError, OSError) as error:
        # Licence and language are recorded in the run.
        again = _again(_command(output_dir, repo_id, replace(hub, license=None, language=[])))
        raise HubError(f"{repo_id}: the push failed before anything was sent: {error}{again}") from error


def check_login(repo_id: str) -> None:
    """Asks the Hub who the user is, before hours are spent on something that is to be pushed there.

    Raises:
        HubError: there is no token, it is not accepted, or the Hub cannot be reached.
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
        raise RecipeError(f"{repo_id}: no name of a repository; expected owner/name ({error})") from error


def _put_together(checkpoint: str, folder: Path, repo_id: str, settings: HubSettings) -> tuple[str, ...]:
    """Writes what is to be pushed; returns what is not as it might be, in words."""
    notes: list[str] = []
    if settings.form == "bert":
        _, _, stock_notes = export_stock(checkpoint, folder)
        notes += stock_notes
    else:
        _write_native(checkpoint, folder)
    source = Path(checkpoint)
    recorded = facts = recorded_facts(source)
    if recorded is not None:
        facts = replace(
            recorded,
            address=repo_id,
            is_stock=settings.form == "bert",
            license=settings.license or recorded.license,
            language=tuple(settings.language) or recorded.language,
            note=" ".join([recorded.note, *notes]).strip(),
        )
        for name in _RESULTS:
            if (source / name).is_file():
                shutil.copyfile(source / name, folder / name)
        blocks, _ = read_recipe_file(source / "recipe.yaml")
        (folder / "recipe.yaml").write_text(to_yaml(without_paths(blocks)), encoding="utf-8")
    return (*notes, *_write_card(source / "README.md", folder / "README.md", recorded, facts))


def _write_native(checkpoint: str, folder: Path) -> None:
    """bertkit's own form: the same weights, with the code of its classes.

    Raises:
        RecipeError: the checkpoint is of a family whose classes are not bertkit's.
    """
    config = load_config(checkpoint, any_encoder=True)
    if config.model_type not in BERT:
        raise RecipeError(f"--as bertkit: {checkpoint} is of type {config.model_type!r}, whose classes are not ours")
    with without_library_bars():
        model, _ = load_model(head_of(config, checkpoint), checkpoint, config, new_head=False)
        model.save_pretrained(folder)
    save_tokenizer(load_tokenizer(checkpoint), folder)


def _write_card(here: Path, there: Path, recorded: CardFacts | None, facts: CardFacts | None) -> list[str]:
    """Writes the model card: the run's, or what the user has made of it; returns what is missing, in words.

    Args:
        here, there: the card beside the checkpoint, and the one that is pushed.
        recorded: of the run, as its own card tells them; ``None`` where there is no finished run.
        facts: the same, as the pushed card is to tell them.
    """
    written = here.read_text(encoding="utf-8") if here.is_file() else None
    if written is not None and (recorded is None or written != model_card(recorded)):
        there.write_text(written, encoding="utf-8")
        return [f"{here} is not as the run wrote it, so it is pushed as it is"] if recorded is not None else []
    if facts is None:
        return [f"no model card: there is no finished run, and no README.md, in {here.parent}"]
    there.write_text(model_card(facts), encoding="utf-8")
    missing = [f"--{name}" for name in ("license", "language") if not getattr(facts, name)]
    return [f"the model card does not say everything; push again with {' and '.join(missing)}"] if missing else []


def _upload(folder: Path, repo_id: str, settings: HubSettings, notes: Sequence[str]) -> Push:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    hub = HfApi()
    new = sorted(path.name for path in folder.iterdir())
    address = hub.create_repo(repo_id, private=settings.private or None, exist_ok=True)
    is_private = bool(hub.repo_info(address.repo_id).private)
    if settings.private and not is_private:
        raise HubError(
            f"{address.repo_id} exists and is public, so nothing was pushed; give another name for a private one, or "
            "leave --private out"
        )
    if settings.revision is not None:
        hub.create_branch(address.repo_id, branch=settings.revision, exist_ok=True)
    there = hub.list_repo_files(address.repo_id, revision=settings.revision)
    stale = [name for name in there if _OF_A_CHECKPOINT.fullmatch(name) and name not in new]
    # Not upload_folder, which may make several commits of one folder.
    commit = hub.create_commit(
        address.repo_id,
        [*(CommitOperationAdd(name, folder / name) for name in new), *map(CommitOperationDelete, stale)],
        commit_message="Push with bertkit",
        revision=settings.revision,
    )
    return Push(str(address), commit.oid, is_private, tuple(new), tuple(notes))


def _again(command: str) -> str:
    return f"\nNothing here is lost. This tries again: {command}"


def _command(checkpoint: str | Path, repo_id: str, settings: HubSettings) -> str:
    """The command that tries again."""
    words = ["bertkit", "push", str(checkpoint), repo_id]
    words += ["--private"] if settings.private else []
    words += ["--revision", settings.revision] if settings.revision else []
    words += ["--as", settings.form] if settings.form != "bert" else []
    words += ["--license", settings.license] if settings.license else []
    words += [word for code in settings.language for word in ("--language", code)]
    return shlex.join(words)


_REASONS = {
    401: "the Hub does not accept the token; log in with `hf auth login`, or set HF_TOKEN to a token of yours",
    403: "the token may not write there; it needs write access to {owner}",
    404: "the Hub does not know it, or the token may not see it",
    409: "somebody else changed it at the same time",
}


@contextmanager
def hub_faults(repo_id: str, command: str | None) -> Iterator[None]:
    """Turns what goes wrong with the Hub into one clear message, in which no token stands.

    Args:
        repo_id: where to.
        command: what tries again, or ``None`` before anything is worth it.

    Raises:
        HubError: in place of what huggingface_hub and the libraries below it raise.
    """
    from huggingface_hub import get_token
    from huggingface_hub.errors import HTTPError

    token = get_token()
    again = _again(command) if command else ""
    if token is None:
        raise HubError(f"{repo_id}: you are not logged in; run `hf auth login`, or set HF_TOKEN{again}")
    try:
        yield
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        reason = _reason(error, repo_id).replace(token, "(token)")
        raise HubError(f"{repo_id}: the push failed: {reason}{again}") from None


def _reason(error: BaseException, repo_id: str) -> str:
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    status = getattr(response, "status_code", None)
    if status in _REASONS:
        return _REASONS[status].format(owner=repo_id.partition("/")[0])
    cause = error.__cause__ or error
    said = (str(cause).strip() or type(cause).__name__).split("\n")[0]
    if status is not None and status >= 500:
        return f"the Hub could not do it now ({said})"
    return said if status is not None or isinstance(error, ValueError) else f"the connection failed ({said})"

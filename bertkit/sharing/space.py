"""A Space on the Hub with the page of ``bertkit demo`` for a model repository."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from bertkit import __version__
from bertkit.json_text import dumps

_GRADIO = "6.31.0"  # if it is not installed here


def space_files(repo_id: str, space: str, license: str | None) -> dict[str, str]:
    """Returns the files of a Space by name: its card, its program and its requirements. They hold no local paths.

    Args:
        repo_id: the model repository.
        space: ``owner/name`` of the Space.
        license: license in the card; ``None`` leaves it out.
    """
    card = {
        "title": space.rpartition("/")[2],
        "sdk": "gradio",
        "sdk_version": _gradio_version(),
        "python_version": "3.11",
        "app_file": "app.py",
        "models": [repo_id],
        **({"license": license} if license else {}),
    }
    # JSON values are YAML too.
    front = "".join(f"{key}: {dumps(value)}\n" for key, value in card.items())
    link = f"[{repo_id}](https://huggingface.co/{repo_id})"
    return {
        "README.md": f"---\n{front}---\n\nA page to try {link}, made by bertkit.\n",
        "app.py": f'import bertkit\n\nbertkit.demo("{repo_id}", host="0.0.0.0", port=7860)\n',
        "requirements.txt": f"bertkit[demo]=={__version__}\n",
    }


def push_space(repo_id: str, space: str, *, private: bool, license: str | None) -> str:
    """Pushes the page of a model repository as one commit; other files of the Space stay.

    Args:
        repo_id: the model repository.
        space: ``owner/name`` of the Space; created if it does not exist.
        private: create it as private.
        license: as for `space_files`.

    Returns:
        The address of the Space.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    hub = HfApi()
    address = hub.create_repo(space, repo_type="space", space_sdk="gradio", private=private or None, exist_ok=True)
    files = space_files(repo_id, address.repo_id, license)
    additions = [CommitOperationAdd(name, text.encode()) for name, text in files.items()]
    hub.create_commit(address.repo_id, additions, commit_message="Push with bertkit", repo_type="space")
    return str(address)


def _gradio_version() -> str:
    try:
        return version("gradio")
    except PackageNotFoundError:
        return _GRADIO

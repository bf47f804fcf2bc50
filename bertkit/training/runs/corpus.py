"""Preparation of a corpus ahead of training: a tokenizer, or a token store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.data.corpus.sentences import find_splitter
from bertkit.data.corpus.settings import Deduplication, DocumentFilter
from bertkit.data.corpus.sources import TextLines, find_sources
from bertkit.data.corpus.store.building import build_store, join_store
from bertkit.data.corpus.store.copies import verify_part
from bertkit.data.corpus.store.encoding import SentenceEncoder
from bertkit.data.corpus.store.filters import empty_index
from bertkit.data.corpus.store.opening import names_store, open_store
from bertkit.data.corpus.store.token_store import TOKENIZER_FOLDER, TokenStore
from bertkit.data.corpus.vocabulary.tokenizer import MergeScore, TokenizerType, train_vocabulary
from bertkit.model.checkpoint.load import load_tokenizer, save_tokenizer
from bertkit.model.configuration_bert import BertConfig
from bertkit.recipe.load import Checker
from bertkit.runtime.errors import DataError, RecipeError, did_you_mean, listed
from bertkit.runtime.options import several
from bertkit.runtime.placement.processes import Engine, Workers
from bertkit.runtime.placement.ray_cluster import import_ray
from bertkit.runtime.progress import Bar
from bertkit.runtime.reading.hub import cache_folder
from bertkit.tasks.pretraining import DataSettings
from bertkit.training.pretraining.initialization import corpus_tokenizer, save_trained_tokenizer
from bertkit.training.pretraining.recipe import check_tokenizer_settings
from bertkit.training.runs.directory import check_output_dir, check_place

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_OF_STORES = {
    *("tokenizer", "vocab_size", "tokenizer_type", "cased", "merge_score", "min_pair_frequency"),
    *("text_column", "dataset_config", "dataset_split"),
    "streaming",  # known, and refused with the reason
    *("document_separator", "sentence_per_line", "sentence_splitter"),
}
"""Keys of the block ``data`` that the text and tokens of a store depend on; others are of the pre-training on it."""


def train_tokenizer_on(
    corpus: str | Path | Sequence[str | Path],
    vocab_size: int,
    output_dir: str | Path,
    *,
    tokenizer_type: TokenizerType = "wordpiece",
    cased: bool = False,
    merge_score: MergeScore = "frequency",
    min_pair_frequency: int | None = None,
    text_column: str = "text",
    dataset_config: str | None = None,
    dataset_split: str = "train",
    streaming: bool = False,
) -> PreTrainedTokenizerBase:
    """Trains a tokenizer on text files and saves it.

    Args:
        corpus: text files, folders, patterns and Hub ids.
        vocab_size: number of pieces, special tokens included.
        output_dir: new or empty folder; ``AutoTokenizer.from_pretrained`` loads it.
        tokenizer_type: ``wordpiece``, as BERT has, or ``byte_level_bpe``, as RoBERTa has.
        cased: keep upper case and accents; byte-level BPE always keeps them.
        merge_score, min_pair_frequency: criteria for merging pieces; see
            `bertkit.data.corpus.vocabulary.tokenizer.train_tokenizer`.
        text_column: the text column of rows.
        dataset_config, dataset_split, streaming: settings of Hub data sets; a streamed data set is read over the
            network twice.

    Returns:
        The tokenizer.

    Raises:
        BertkitError: the corpus cannot be read, the size is impossible, or the folder is in use; nothing is written.

    Examples:
        ```python
        tokenizer = bertkit.train_tokenizer(["texts/"], 8000, "my-tokenizer")
        tokenizer.tokenize("a lovely film")
        ```
    """
    output_dir = Path(output_dir)
    check_output_dir(output_dir, resume=False, can_resume=False)
    sources = find_sources(
        corpus,
        text_column=text_column,
        dataset_config=dataset_config,
        dataset_split=dataset_split,
        streaming=streaming,
    )
    tokenizer = train_vocabulary(
        tokenizer_type,
        TextLines(sources),
        vocab_size,
        lowercase=not cased,
        merge_score=merge_score,
        min_frequency=min_pair_frequency,
    )
    save_trained_tokenizer(tokenizer, output_dir)
    return tokenizer


def build_corpus(
    corpus: str | Path | Sequence[str | Path],
    output_dir: str | Path,
    *,
    engine: Engine = "local",
    workers: int | None = None,
    ray_address: str | None = None,
    min_tokens: int = 1,
    deduplicate: Deduplication | None = None,
    part: str | None = None,
    **settings: Any,
) -> TokenStore | None:
    """Splits and tokenizes a corpus into a token store, on which `pretrain` trains as on the texts.

    The store has the same bytes for any engine, number of workers and parts. A repeated call after a killed one does
    what is missing; what is finished is in the folder ``NAME.building`` beside ``output_dir``.

    Args:
        corpus: text files, folders, patterns and Hub ids.
        output_dir: folder of the store; new or empty, or the store of an earlier call with the same arguments.
        engine: ``local``: processes of this machine; ``ray``: tasks of Ray (extra ``ray``), on machines where the texts
            and ``output_dir`` have the same paths.
        workers: number of processes that read, split, tokenize and write, by default one per core of this machine.
        ray_address: address of a running Ray cluster; ``None`` starts Ray on this machine for this call.
        min_tokens: leave out documents with fewer tokens.
        deduplicate: leave out documents that repeat an earlier one: ``exact``, or ``minhash`` for near duplicates too
            (package datasketch).
        part: ``i/n``, 1 ≤ i ≤ n: do the i-th of n shares of the work only, for example on another machine;
            `join_corpus` makes the store when all are done.
        settings: values of the recipe block ``data``: ``tokenizer`` or ``vocab_size`` with ``tokenizer_type``,
            ``cased``, ``merge_score`` and ``min_pair_frequency``; ``text_column``, ``dataset_config``,
            ``dataset_split``, ``document_separator``, ``sentence_per_line`` and ``sentence_splitter``.

    Returns:
        The store; its tokenizer is in the folder ``tokenizer``. None for a part, unless the store is there.

    Raises:
        BertkitError: the arguments or the text are invalid, a worker was killed, or the folder is in use; then
            ``output_dir`` is unchanged.

    Examples:
        ```python
        store = bertkit.build_corpus(["texts/"], "store", vocab_size=8000)
        len(store.tokens)
        ```
    """
    data = _check_settings(list(map(str, several(corpus))), settings)
    splitter = find_splitter(data.sentence_splitter)
    chosen = DocumentFilter(min_tokens=min_tokens, deduplicate=deduplicate)
    check_place(Path(output_dir))
    processes = Workers(engine=engine, number=workers, ray_address=ray_address, part=part)
    if engine == "ray":
        import_ray()  # a missing extra is reported before anything is read
    if deduplicate == "minhash":
        empty_index()  # as above
    if part is not None and data.tokenizer is None:
        raise RecipeError("--part: give --tokenizer; a vocabulary is trained once (bertkit tokenizer train)")
    if part is not None and chosen.deduplicate is not None:
        raise RecipeError("--deduplicate: finds duplicates in the whole text; build it without --part")
    if names_store(data.corpus):
        raise DataError(f"{data.corpus[0]}: is a token store already; give texts")
    sources = data.sources()
    positions = BertConfig().max_position_embeddings
    tokenizer = corpus_tokenizer(data, sources, positions, cache_folder())
    with Bar("tokenizing", "B") as progress:
        return build_store(
            Path(output_dir),
            sources,
            data.form(),
            tokenizer,
            splitter,
            chosen=chosen,
            workers=processes,
            add=lambda draft: save_tokenizer(tokenizer, draft / TOKENIZER_FOLDER),
            progress=progress,
        )


def join_corpus(output_dir: str | Path) -> TokenStore:
    """Makes a token store of the parts that calls of `build_corpus` with ``part`` have written.

    Args:
        output_dir: as for `build_corpus`.

    Returns:
        The store.

    Raises:
        DataError: no document is left, or the store or a record of its build is damaged.
        OutputError: parts are missing, and the message names them; another process builds the store; or it is no
            folder.

    Examples:
        ```python
        for part in ("1/2", "2/2"):  # each on a machine of its own
            bertkit.build_corpus(["texts/"], "store", part=part, tokenizer="my-bert")
        bertkit.join_corpus("store")
        ```
    """
    check_place(Path(output_dir))
    return join_store(Path(output_dir))


def verify_corpus(store: str | Path) -> TokenStore:
    """Reads all of a token store and compares its checksums, and that of its tokenizer if it has one.

    Args:
        store: folder or URL; of a URL all parts are read anew, whatever is in the cache.

    Returns:
        The store.

    Raises:
        DataError: there is no store, or it is damaged; the message names the first damaged file.
        CheckpointError: its tokenizer cannot be loaded.

    Examples:
        ```python
        bertkit.build_corpus(["texts/"], "store", tokenizer="my-bert")
        bertkit.verify_corpus("store")
        ```
    """
    opened = open_store(str(store), cache_folder())
    for part in opened.parts:
        verify_part(part)
        part.close()
    folder = opened.folder / TOKENIZER_FOLDER
    if folder.is_dir():
        own = SentenceEncoder(load_tokenizer(folder, for_pretraining=True), None)
        if own.tokenizer_digest != opened.metadata["tokenizer"]:
            raise DataError(f"{folder}: is not the tokenizer that made the tokens: this token store is damaged")
    return opened


def _check_settings(corpus: list[str], settings: dict[str, Any]) -> DataSettings:
    """Returns the block ``data`` of a store; RecipeError for other keys, wrong values, or not one tokenizer."""
    if unknown := sorted(settings.keys() - _OF_STORES):
        raise RecipeError(f"{unknown[0]}: not a setting of a token store{did_you_mean(unknown[0], _OF_STORES)}")
    given = {key: str(value) if isinstance(value, Path) else value for key, value in settings.items()}
    checker = Checker({"data": {"corpus": corpus, **given}}, {f"data.{key}": key for key in given})
    data: DataSettings = checker.settings("data", DataSettings)
    if checker.faults:
        raise RecipeError(listed(checker.faults))
    if (data.tokenizer is None) == (data.vocab_size is None):
        raise RecipeError("give either --tokenizer (a folder or a Hub id) or --vocab-size (to train one on the corpus)")
    check_tokenizer_settings(data)
    if data.tokenizer is not None and data.tokenizer_type != "wordpiece":  # recipes of RoBERTa name it for both
        raise RecipeError("--tokenizer-type needs --vocab-size; an existing tokenizer keeps its settings")
    if data.streaming:
        raise RecipeError("--streaming: a store is built from texts that are read as a whole; remove it")
    return data

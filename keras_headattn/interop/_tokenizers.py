"""Tokenizers of checkpoints."""

import collections
import pathlib
from collections.abc import Mapping
from typing import Any

from keras_headattn._files import Path, read_json, read_lines
from keras_headattn.interop._configs import Config
from keras_headattn.interop._sentencepiece_models import (
    WORD_START,
    fairseq_model,
    marian_model,
    read_model,
    word_model,
)
from keras_headattn.interop._tokenizer_json import TokenizerJson
from keras_headattn.interop._tokenizer_settings import LANGUAGE_MODELS, SPECIALS, Settings

END_OF_TEXT = "<|endoftext|>"
SENTENCE_PIECES = "tokenizer.model"
# First tokens of fairseq's vocabularies, before the SentencePiece model's.
FIRST = {
    "xlm-roberta": ["<s>", "<pad>", "</s>", "<unk>"],
    "camembert": ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"],
}
# Keys of KerasHub's tokenizers that are read or harmless.
PRESET_KEYS = """
    add_eos add_prefix_space config_file dtype lowercase merges name proto special_tokens special_tokens_in_strings
    strip_accents trainable unsplittable_tokens vocabulary
""".split()


def read_tokenizer(path, arguments):
    if not path.is_dir():
        raise FileNotFoundError(f"There is no such folder. Received: {path}")
    file = path / "config.json"
    config = Config.load(file if file.exists() else _need(path, "bert_config.json"))
    if "registered_name" in config.values:
        return _of_preset(path, Config(config["config"], config.path), arguments)
    kind = config.get("model_type", "bert")
    readers = dict(
        marian=_marian, blenderbot=_marian, bert=_word_pieces, electra=_word_pieces, roberta=_byte_pairs,
        modernbert=_byte_pairs, t5=_t5, mt5=_t5,
    ) | {"xlm-roberta": _fairseq, "camembert": _fairseq} | dict.fromkeys(LANGUAGE_MODELS, _language_model)  # fmt: skip
    if kind not in readers:
        raise ValueError(f"Tokenizers can be read for {', '.join(readers)}. Received: {kind} in {path}")
    return readers[kind](path, config, arguments)


def _need(path, name):
    if not (path / name).exists():
        raise FileNotFoundError(f"The folder lacks the tokenizer's {name}. Received: {path}")
    return path / name


def _check_size(tokenizer, config, key="vocab_size"):
    """Refuses a tokenizer with more tokens than embeddings, which may have unused rows, and returns it."""
    if tokenizer.vocabulary_size > config[key]:
        raise ValueError(
            "The vocabulary must be that of the model. "
            f"Received: {tokenizer.vocabulary_size} tokens for {key}={config[key]} in {config.path}"
        )
    return tokenizer


def _json(path, kind):
    """Reads the tokenizer.json of a folder, `None` if it is missing."""
    file = path / "tokenizer.json"
    return TokenizerJson(file, kind) if file.exists() else None


def _word_pieces(path, config, arguments):
    from keras_headattn.text import WordPieceTokenizer

    kind = config.get("model_type", "bert")
    settings = Settings(path, kind, ("do_lower_case", "strip_accents"))
    whole = _json(path, kind)
    if whole:
        vocabulary, lowercase, strip_accents = whole.word_pieces()
        lowercase = settings.flag("do_lower_case", lowercase)
        strip_accents = settings.flag("strip_accents", strip_accents)
    else:
        # Read by the tokenizer, with its error messages.
        vocabulary = WordPieceTokenizer(_need(path, "vocab.txt")).vocabulary
        lowercase, strip_accents = settings.flag("do_lower_case", True), settings.flag("strip_accents", None)
    defaults = dict(lowercase=lowercase, strip_accents=strip_accents, added_tokens=settings.added(vocabulary, whole))
    return _check_size(WordPieceTokenizer(vocabulary, **{**defaults, **arguments}), config)


def _byte_pairs(path, config, arguments):
    from keras_headattn.text import BytePairTokenizer, ModernBertTokenizer
    from keras_headattn.text._byte_pair_tokenizer import read_vocabulary

    kind = config.get("model_type")
    settings = Settings(path, kind, ("add_prefix_space",))
    whole = _json(path, kind)
    if whole:
        vocabulary, options = whole.byte_pairs()
    else:
        vocabulary = read_vocabulary(_need(path, "vocab.json"))
        options = dict(merges=_need(path, "merges.txt"), add_prefix_space=False)
    defaults = dict(
        merges=options["merges"],
        add_prefix_space=settings.flag("add_prefix_space", options["add_prefix_space"]),
        added_tokens=settings.added(vocabulary, whole),
    )
    if kind == "roberta":
        return _check_size(BytePairTokenizer(vocabulary, **{**defaults, **arguments}), config)
    defaults["added_tokens"] = [_as_given(token) for token in defaults["added_tokens"]]
    return _check_size(ModernBertTokenizer(vocabulary, **{**defaults, **arguments}), config)


def _language_model(path, config, arguments):
    from keras_headattn.text import BytePairTokenizer
    from keras_headattn.text._added_tokens import OPTIONS

    kind = config["model_type"]
    whole = _json(path, kind)
    if whole.falls_back if whole else (path / SENTENCE_PIECES).exists():
        return _byte_fallback(path, config, arguments, whole)
    whole = whole or TokenizerJson(_need(path, "tokenizer.json"), kind)
    settings = Settings(path, kind, ("add_bos_token", "add_prefix_space", "padding_side"))
    _check_beginning(settings, whole)
    vocabulary, defaults = whole.byte_pairs()
    defaults["add_prefix_space"] = settings.flag("add_prefix_space", defaults["add_prefix_space"])
    defaults["added_tokens"] = settings.added(vocabulary, whole)
    end = settings.special("eos_token")
    if end is None and END_OF_TEXT in {*vocabulary, *(token["content"] for token in defaults["added_tokens"])}:
        end = END_OF_TEXT
    specials = {"bos": whole.beginning, "eos": end}
    defaults["specials"] = specials = {name: token for name, token in specials.items() if token is not None}
    implied = [{**OPTIONS, "content": token, "special": True} for token in {*specials.values()} & {*vocabulary}]
    defaults["added_tokens"] = [token for token in defaults["added_tokens"] if token not in implied]
    return _check_size(BytePairTokenizer(vocabulary, **{"add_eos": False, **defaults, **arguments}), config)


def _check_beginning(settings, whole):
    if settings.flag("add_bos_token", bool(whole.beginning)) != bool(whole.beginning):
        raise ValueError(
            "`add_bos_token` must agree with the template of tokenizer.json. Received: add_bos_token="
            f"{settings.values['add_bos_token']}, template with {whole.beginning} in {settings.path}"
        )


def _byte_fallback(path, config, arguments, whole):
    """Makes the tokenizer of a SentencePiece model; tokenizer.json, if any, says what it does before a text."""
    from keras_headattn.text import ByteFallbackTokenizer

    honoured = ("add_bos_token", "add_prefix_space", "legacy", "padding_side")
    settings = Settings(path, config["model_type"], honoured, ("LlamaTokenizer", "GemmaTokenizer"))
    proto, end = _need(path, SENTENCE_PIECES).read_bytes(), settings.special("eos_token")
    model, plain = read_model(proto), ByteFallbackTokenizer(proto)
    adds_space = model.normalizer_spec.add_dummy_prefix
    has_prefix, once = whole.prefix() if whole else (adds_space, not settings.flag("legacy", True))
    if {has_prefix, settings.flag("add_prefix_space", has_prefix)} != {adds_space}:
        raise ValueError(
            "`add_prefix_space` must be that of tokenizer.model and tokenizer.json. Received: add_prefix_space="
            f"{settings.get('add_prefix_space')}, {adds_space} and {has_prefix} in {path}"
        )
    if whole:
        _check_beginning(settings, whole)
        beginning = whole.beginning
    else:
        beginning = settings.special("bos_token") or plain.specials.get("bos")
        beginning = beginning if settings.flag("add_bos_token", False) else None
    specials = {"bos": beginning, "eos": end or plain.specials.get("eos")}
    defaults = dict(
        specials={name: token for name, token in specials.items() if token is not None},
        added_tokens=_with_rows(settings.added(plain.vocabulary, whole), plain.vocabulary, config["vocab_size"]),
        prefix_once=has_prefix and once,
    )
    normalized = [token["content"] for token in defaults["added_tokens"] if token["normalized"]]
    if normalized and whole and has_prefix and not once:
        raise ValueError(
            "Added tokens must not be looked for in text with a space before it (`normalized`). "
            f"Received: {normalized[:5]} in {path}"
        )
    return _check_size(ByteFallbackTokenizer(proto, **{**defaults, **arguments}), config)


def _with_rows(added, vocabulary, size):
    """Leaves out special tokens that the embedding has no rows for, such as Gemma 3's of images."""
    known = {*vocabulary}
    new = [token["content"] for token in added if token["content"] not in known]
    left_out = {*new[max(0, size - len(known)) :]}
    return [token for token in added if not token["special"] or token["content"] not in left_out]


def _as_given(token):
    """Returns an added token to look for in the text as it is given, where composing characters cannot hide it."""
    content = token["content"]
    is_composed = not content.isascii() or content[-1].isalpha() or content[-1] in "<=>"
    return {**token, "normalized": token["normalized"] and is_composed}


def _t5(path, config, arguments):
    from keras_headattn.text import SentencePieceTokenizer

    kind = config.get("model_type")
    settings = Settings(path, kind, ("extra_ids",))
    whole = _json(path, kind)
    if whole:
        proto, num_sentinels, tokens = whole.unigram(settings.is_no_text)
    else:
        # Multilingual models have sentinels in the vocabulary.
        proto, num_sentinels = _need(path, "spiece.model"), settings.get("extra_ids", 100 if kind == "t5" else 0)
        plain = SentencePieceTokenizer(proto, num_sentinels=num_sentinels)
        tokens = [plain.id_to_token(i) for i in range(plain.vocabulary_size)]
    defaults = dict(num_sentinels=num_sentinels, added_tokens=settings.added(tokens, whole))
    return _check_size(SentencePieceTokenizer(proto, **{**defaults, **arguments}), config)


def _fairseq(path, config, arguments):
    from keras_headattn.text import SentencePiecePairTokenizer

    kind = config.get("model_type")
    settings = Settings(path, kind)
    whole = _json(path, kind)
    proto = (
        whole.unigram(settings.is_no_text)[0]
        if whole
        else fairseq_model(_need(path, "sentencepiece.bpe.model"), FIRST[kind])
    )
    defaults = dict(added_tokens=settings.added(SentencePiecePairTokenizer(proto).vocabulary, whole))
    return _check_size(SentencePiecePairTokenizer(proto, **{**defaults, **arguments}), config)


def _of_preset(path, config, arguments):
    """Makes the tokenizer of a KerasHub preset. Unlike KerasHub's, it strips accents in lower case, as BERT was
    trained."""
    from keras_headattn.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

    settings = Config.load(_need(path, "tokenizer.json"))["config"]
    folder = path / "assets" / "tokenizer"
    if (folder / "vocabulary.txt").exists():
        _check_preset(path, settings, split=True, split_on_cjk=True, suffix_indicator="##", oov_token="[UNK]")
        # False is KerasHub's default, in lower case, too.
        defaults = dict(lowercase=settings.get("lowercase", False), strip_accents=settings.get("strip_accents") or None)
        tokenizer = WordPieceTokenizer(folder / "vocabulary.txt", **{**defaults, **arguments})
    elif (folder / "vocabulary.json").exists():
        _check_preset(path, settings)
        defaults = {"add_prefix_space": settings.get("add_prefix_space", False), **arguments}
        tokenizer = BytePairTokenizer(folder / "vocabulary.json", _need(folder, "merges.txt"), **defaults)
    else:
        _check_preset(path, settings, add_bos=False)
        tokenizer = SentencePieceTokenizer(_need(folder, "vocabulary.spm"), **arguments)
    return _check_size(tokenizer, config, "vocab_size" if "vocab_size" in config.values else "vocabulary_size")


def _check_preset(path, settings, **fixed):
    """Refuses settings that change ids."""
    fixed["sequence_length"] = None
    different = {key: settings[key] for key in fixed if settings.get(key, fixed[key]) != fixed[key]}
    if whole := set(settings.get("unsplittable_tokens") or ()) - set(SPECIALS["roberta"].values()):
        different["unsplittable_tokens"] = sorted(whole)
    different |= {key: value for key, value in settings.items() if key not in fixed and key not in PRESET_KEYS}
    if different:
        raise ValueError(f"The preset's tokenizer has settings that are not supported. Received: {different} in {path}")


def _marian(path, config, arguments):
    from keras_headattn.text import LanguagePair, SentencePieceTokenizer

    settings = Settings(path, config["model_type"])
    added = [token["content"] for token in settings.added([*_read_ids(_need(path, "vocab.json"))])]
    if strange := [token for token in added if not (token.startswith(">>") and token.endswith("<<"))]:
        raise ValueError(f"Added tokens are not supported for Marian. Received: {strange[:5]} in {path}")
    protos = marian_vocabularies(path, config)
    return LanguagePair(*(SentencePieceTokenizer(proto, **arguments) for proto in protos))


def marian_vocabularies(path: Path, config: Mapping[str, Any] | None = None) -> tuple[bytes, bytes]:
    """Returns a Marian folder's SentencePiece models, source and target, with the ids of `from_pretrained`'s model.

    Marian has its own vocabulary, vocab.json. The returned models have its tokens at its ids, with padding and id 0
    swapped, and the scores of the folder's models. Tokens found only in the vocabulary
    never occur in text. Pieces found only in a model are left out: such text is split further, where Marian has an
    unknown token.

    Args:
        path: str or path of the folder.
        config: its configuration. Default `None`: read from the folder.

    Returns:
        `(bytes, bytes)`, for `SentencePieceTokenizer`.

    Raises:
        FileNotFoundError, ValueError: if a file is missing, or the model has another vocabulary size.
    """
    path = pathlib.Path(path)
    config = config or Config.load(_need(path, "config.json"))
    ids = {"source": _read_ids(_need(path, "vocab.json")), "target": None}
    separate = not config.get("share_encoder_decoder_embeddings", True)
    ids["target"] = _read_ids(_need(path, "target_vocab.json")) if separate else ids["source"]
    sizes = {"source": config["vocab_size"], "target": config.get("decoder_vocab_size") or config["vocab_size"]}
    protos = []
    for side, vocabulary in ids.items():
        if len(vocabulary) != sizes[side]:
            raise ValueError(
                "The vocabulary must be that of the model. "
                f"Received: {len(vocabulary)} tokens of the {side} for {sizes[side]} rows in {path}"
            )
        pad_id = config["pad_token_id"]
        start = config.get("decoder_start_token_id")
        protos.append(marian_model(_need(path, f"{side}.spm"), vocabulary, pad_id, pad_id if start is None else start))
    return tuple(protos)


def read_vocabularies(path: Path) -> list[bytes]:
    """Reads the vocabulary of a text whose tokens stand between spaces, as SentencePiece models.

    A model splits text at spaces alone and joins tokens with spaces, so text must be tokenized as the vocabulary's was,
    and `@@` of byte pairs stays. Several unknown tokens in a row are one. Padding is id 0, unknown 1, begin 2 and end
    3; the tokens follow from 4 in the order of the file, which are their ids in the library that wrote it.

    Args:
        path: str or path of a text file of one of these forms.

            - fairseq's `dict.txt`: a token, a space and its count in each line. fairseq has begin, padding, end and
              unknown as ids 0 to 3.
            - That of attention-is-all-you-need-keras (`en2de_word.txt`): a token a line, first of the source, then a
              line `<@@@>`, then of the target. Its sources have a begin symbol: `SentencePieceTokenizer(proto,
              add_bos=True)`.
            - A token a line.

    Returns:
        List of bytes, each for `SentencePieceTokenizer`: of source and target for the second form, else of one.

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if it has no tokens, a line has several, a token is there twice, or tokens are SentencePiece's own.

    >>> import pathlib
    >>> _ = pathlib.Path("en2de_word.txt").write_text("a\\ncat\\n<@@@>\\neine\\nKatze\\n")
    >>> len(read_vocabularies("en2de_word.txt"))
    2
    """
    sides, numbers = [[]], []
    for line_number, line in enumerate(read_lines(path, strip=False), 1):
        token, *count = line.rstrip("\r\n").removesuffix(" #fairseq:overwrite").split(" ")
        if token == "<@@@>" and not count:
            sides.append([])
        elif token:
            numbers.append(len(count))
            if len(count) > 1 or numbers[0] != len(count) or not all(map(str.isdecimal, count)) or WORD_START in token:
                raise ValueError(
                    f"{path}, line {line_number} must be a token, in every line or in none with its count after a "
                    f"space; of pieces of SentencePiece give its model. Received: {line.strip()[:60]!r}"
                )
            sides[-1].append(token)
    for tokens in sides:
        twice = [token for token, count in collections.Counter(tokens).items() if count > 1]
        if twice or not tokens or len(sides) > 2:
            raise ValueError(
                f"{path} must have tokens, each once, of one language or two. "
                f"Received: {len(tokens)} tokens, twice {twice[:5]}, of {len(sides)} languages"
            )
    return [word_model(tokens) for tokens in sides]


def _read_ids(path):
    ids = read_json(path)
    is_dictionary = isinstance(ids, dict) and all(type(index) is int for index in ids.values())
    if not is_dictionary or sorted(ids.values()) != list(range(len(ids))) or not {"<pad>", "</s>", "<unk>"} <= set(ids):
        raise ValueError(
            "The vocabulary must be a dictionary of tokens, <pad>, </s> and <unk> among them, to the ids from 0 on. "
            f"Received: {path}"
        )
    return dict(sorted(ids.items(), key=lambda item: item[1]))

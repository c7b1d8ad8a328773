"""Settings of tokenizers in the files of Hugging Face, of which every one is honoured, harmless or refused."""

import re

from keras_headattn._files import read_json

GENERIC = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")
CLASSES = {
    "bert": ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
    "electra": ("BertTokenizer", "ElectraTokenizer"),
    "roberta": ("RobertaTokenizer",),
    "t5": ("T5Tokenizer",),
    "mt5": ("T5Tokenizer", "MT5Tokenizer"),
    "xlm-roberta": ("XLMRobertaTokenizer",),
    "camembert": ("CamembertTokenizer",),
    "marian": ("MarianTokenizer",),
}
BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
ROBERTA = {
    "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>",
}  # fmt: skip
SENTENCES = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
SPECIALS = {
    "bert": BERT, "electra": BERT, "roberta": ROBERTA, "xlm-roberta": ROBERTA, "camembert": ROBERTA,
    "t5": SENTENCES, "mt5": SENTENCES, "marian": SENTENCES,
}  # fmt: skip
# Tokens of a vocabulary that are no part of texts: sentinels, and places that fairseq leaves free.
NO_TEXT = re.compile("\N{LOWER ONE EIGHTH BLOCK}?<extra_id_[0-9]+>|.*NOTUSED")
# Keys that say nothing of the ids of a text: of files, of calls, of decoding.
HARMLESS = """
    backend chat_template clean_up_tokenization_spaces errors init_inputs is_local local_files_only max_len max_length
    merges_file model_input_names model_max_length model_specific_special_tokens name_or_path pad_to_multiple_of
    pad_token_type_id processor_class return_token_type_ids source_lang source_spm special_tokens_map_file stride
    target_lang target_spm target_vocab_file tokenizer_file trim_offsets truncation_strategy unk_id use_fast vocab_file
    vocab separate_vocabs
""".split()
# Keys that change ids, and the value that is read here.
FIXED = dict(
    add_bos_token=False,
    auto_map=None,
    clean_text=True,
    do_basic_tokenize=True,
    do_lower_case=False,
    never_split=None,
    padding_side="right",
    sp_model_kwargs={},
    strip_accents=False,
    tokenize_chinese_chars=True,
    truncation_side="right",
    wordpieces_prefix="##",
)
ADDED_OPTIONS = ("normalized", "lstrip", "rstrip", "single_word", "special")


class Settings:
    """Settings of a folder: tokenizer_config.json, special_tokens_map.json and added_tokens.json.

    Args:
        path: of the folder.
        kind: model type.
        honoured: names of keys that the caller reads.
    """

    def __init__(self, path, kind, honoured=()):
        self.path, self.kind = path, kind
        self.values = _read(path / "tokenizer_config.json")
        self._special = _read(path / "special_tokens_map.json")
        self.core = set(SPECIALS[kind].values())
        self._check_class()
        for file, values in (("tokenizer_config.json", self.values), ("special_tokens_map.json", self._special)):
            for key, value in values.items():
                if key not in honoured:
                    self._check(path / file, key, value)

    def get(self, key, default=None):
        value = self.values.get(key)
        return default if value is None else value

    def _check_class(self):
        name = self.values.get("tokenizer_class")
        known = {*CLASSES[self.kind], *GENERIC}
        if name is not None and (
            not isinstance(name, str) or name.removesuffix("Fast") not in known and name not in known
        ):
            raise ValueError(
                f"`tokenizer_class` of {self.kind} must be {' or '.join(CLASSES[self.kind])}. "
                f"Received: {name!r} in {self.path / 'tokenizer_config.json'}"
            )

    def _check(self, file, key, value):
        if key in HARMLESS or key in LATER or key == "tokenizer_class":
            return
        if key.endswith("_token") and key.removesuffix("_token") in ("bos", "eos", *BERT):
            self._check_special(file, key, value)
        elif key == "extra_ids" or key == "add_eos_token" or key == "add_prefix_space":
            expected = {"extra_ids": 0, "add_eos_token": True, "add_prefix_space": True}[key]
            self._same(file, key, value, expected)
        elif key in FIXED:
            self._same(file, key, value, FIXED[key])
        else:
            raise ValueError(
                f"The settings of the tokenizer have the key {key!r}, which is not known here and may change its ids. "
                f"Received: {key}={value!r:.80} in {file}"
            )

    def _same(self, file, key, value, expected):
        if value != expected and not (value is None or not expected and not value):
            raise ValueError(
                f"`{key}` of {self.kind} must be {expected!r} here. Received: {key}={value!r:.80} in {file}"
            )

    def _check_special(self, file, key, value):
        token = value.get("content") if isinstance(value, dict) else value
        expected = SPECIALS[self.kind].get(key.removesuffix("_token"))
        if token is not None and token != expected and not (expected is None and token in self.core):
            raise ValueError(f"`{key}` of {self.kind} must be {expected!r} here. Received: {token!r} in {file}")

    def added(self, vocabulary, whole=None):
        """Tokens that were added to a vocabulary, as a tokenizer's `added_tokens`.

        Args:
            vocabulary: list of str, the tokens of the ids from 0 on.
            whole: `TokenizerJson`. Default `None`: there is none.
        """
        tokens = self._listed(whole.document if whole else {})
        ids = {token: index for index, token in enumerate(vocabulary)}
        for token in tokens:
            content, index = token["content"], token["id"]
            if index is not None and ids.get(content, index) != index:
                raise ValueError(
                    f"A token must have one id. Received: {content!r} of ids {index} and {ids[content]} in {self.path}"
                )
        kept = [token for token in tokens if not self.is_no_text(token["content"])]
        for key, is_so in (("split_special_tokens", True), ("legacy", False)):
            if kept and self.get(key, not is_so) is is_so:
                raise ValueError(
                    f"`{key}` must be {not is_so} where tokens are added. "
                    f"Received: {key}={is_so} and {kept[0]['content']!r} in {self.path}"
                )
        new = sorted(t["id"] for t in kept if t["content"] not in ids and t["id"] is not None)
        if new != list(range(len(vocabulary), len(vocabulary) + len(new))):
            raise ValueError(
                f"Added tokens must have the ids from {len(vocabulary)} on, after the vocabulary. "
                f"Received: {new[:5]} in {self.path}"
            )
        if whole and kept and getattr(whole, "begins_once", False):
            whole.refuse("pre_tokenizer.prepend_scheme", f"'first' and the added token {kept[0]['content']!r}")
        words = [token["content"] for token in kept if token["single_word"]]
        if words:
            raise ValueError(
                f"Added tokens must not be of whole words (`single_word`). Received: {words[:5]} in {self.path}"
            )
        kept.sort(key=lambda token: (token["id"] is None, ids.get(token["content"], token["id"] or 0)))
        return [{key: token[key] for key in ("content", "normalized", "lstrip", "rstrip")} for token in kept]

    def is_no_text(self, content):
        """True for a token that text never becomes."""
        return content in self.core or NO_TEXT.fullmatch(content)

    def _listed(self, document):
        """All tokens that the files list: dictionaries with `content`, `id` and `ADDED_OPTIONS`."""
        found = {}
        lists = ("additional_special_tokens", "extra_special_tokens")
        extra = [
            entry for values in (self.values, self._special) for key in lists for entry in _entries(values.get(key))
        ]
        special = {_content(entry, self.path) for entry in extra}
        for content, index in _read(self.path / "added_tokens.json").items():
            self._add(found, {"content": content, "special": content in special}, index)
        decoder = self.values.get("added_tokens_decoder") or {}
        for index, entry in decoder.items() if isinstance(decoder, dict) else [(None, decoder)]:
            self._add(found, entry, int(index) if str(index).isdecimal() else index)
        for entry in document.get("added_tokens") or []:
            self._add(found, entry, entry.get("id") if isinstance(entry, dict) else None)
        for entry in extra:
            content = _content(entry, self.path)
            if content in found:
                found[content]["special"] = True
            else:
                self._add(
                    found, {**(entry if isinstance(entry, dict) else {}), "content": content, "special": True}, None
                )
        return list(found.values())

    def _add(self, found, entry, index):
        content = _content(entry, self.path)
        is_id = index is None or type(index) is int and index >= 0
        before = found.get(content, {}).get("id")
        if not is_id or not content or before is not None and index != before:
            raise ValueError(
                "An added token must be a non-empty str with one id from 0 on. "
                f"Received: {content!r} of id {index!r:.40} in {self.path}"
            )
        special = bool(entry.get("special", False))
        options = {name: bool(entry.get(name, False)) for name in ADDED_OPTIONS}
        options["normalized"] = bool(entry.get("normalized", not special))
        found[content] = {"content": content, "id": index, **options}


LATER = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "legacy", "split_special_tokens")


def _read(file):
    """The dictionary of a file of JSON, which may be missing."""
    if not file.exists():
        return {}
    values = read_json(file)
    if not isinstance(values, dict):
        raise ValueError(f"{file} must be a JSON object. Received: {type(values).__name__}")
    return values


def _entries(value):
    """The entries of a list of tokens; a dictionary names each of them."""
    return list(value.values()) if isinstance(value, dict) else value or []


def _content(entry, path):
    content = entry.get("content") if isinstance(entry, dict) else entry
    if not isinstance(content, str):
        raise ValueError(f"An added token must be a str, or have one as `content`. Received: {entry!r:.80} in {path}")
    return content

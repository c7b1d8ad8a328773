"""Settings of Hugging Face's tokenizers; each is honoured, harmless or refused."""

import re

from keras_headattn._files import read_json

LANGUAGE_MODELS = "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma2", "gemma3_text"
GENERIC = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")
CLASSES = {
    "bert": ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
    "electra": ("BertTokenizer", "ElectraTokenizer"),
    "modernbert": ("ModernBertTokenizer",),  # a name for the generic ones, which it has
    "roberta": ("RobertaTokenizer",),
    "t5": ("T5Tokenizer",),
    "mt5": ("T5Tokenizer", "MT5Tokenizer"),
    "xlm-roberta": ("XLMRobertaTokenizer",),
    "camembert": ("CamembertTokenizer",),
    "marian": ("MarianTokenizer",),
    "blenderbot": ("MarianTokenizer",),  # as `to_hugging_face` writes it
} | dict.fromkeys(LANGUAGE_MODELS, ("GPT2Tokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer"))
BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
ROBERTA = {
    "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>",
}  # fmt: skip
SENTENCES = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
SPECIALS = {
    "bert": BERT, "electra": BERT, "modernbert": BERT, "roberta": ROBERTA, "xlm-roberta": ROBERTA, "camembert": ROBERTA,
    "t5": SENTENCES, "mt5": SENTENCES, "marian": SENTENCES, "blenderbot": SENTENCES,
} | dict.fromkeys(LANGUAGE_MODELS, {})  # fmt: skip
# Tokens that never occur in text: sentinels and fairseq's unused ids.
NO_TEXT = re.compile("\N{LOWER ONE EIGHTH BLOCK}?<extra_id_[0-9]+>|.*NOTUSED")
# Keys that do not change the ids of a text.
HARMLESS = """
    backend boi_token chat_template clean_up_tokenization_spaces eoi_token errors fast full_tokenizer_file image_token
    init_inputs is_local local_files_only max_len max_length merges_file model_input_names model_max_length
    model_specific_special_tokens name_or_path pad_to_multiple_of pad_token_type_id processor_class
    return_token_type_ids separate_vocabs source_lang source_spm spaces_between_special_tokens special_tokens_map_file
    stride target_lang target_spm target_vocab_file tokenizer_file trim_offsets truncation_strategy unk_id
    use_default_system_prompt use_fast vocab vocab_file vocab_size
""".split()
# Keys that change ids, and the supported value, unless a kind honours others.
FIXED = dict(
    add_bos_token=False,
    add_eos_token=True,
    add_prefix_space=True,
    auto_map=None,
    clean_text=True,
    do_basic_tokenize=True,
    do_lower_case=False,
    extra_ids=0,
    never_split=None,
    padding_side="right",
    sp_model_kwargs={},
    strip_accents=False,
    tokenize_chinese_chars=True,
    truncation_side="right",
    wordpieces_prefix="##",
)
# Keys that matter for added tokens.
OF_ADDED = (
    "added_tokens_decoder",
    "additional_special_tokens",
    "extra_special_tokens",
    "legacy",
    "split_special_tokens",
)
ADDED_OPTIONS = ("normalized", "lstrip", "rstrip", "single_word", "special")


class Settings:
    """Settings of a folder: tokenizer_config.json, special_tokens_map.json and added_tokens.json."""

    def __init__(self, path, kind, honoured=(), classes=None):
        self.path, self.kind, self._honoured = path, kind, honoured
        self._classes = classes or CLASSES[kind]
        self.values = _read(path / "tokenizer_config.json")
        self._special = _read(path / "special_tokens_map.json")
        self.core = set(SPECIALS[kind].values())
        # Language models get the end token from the caller; the side of padding does not change their ids.
        self._fixed = FIXED | ({"add_eos_token": False} if kind in LANGUAGE_MODELS else {})
        self._check_class()
        for file, values in (("tokenizer_config.json", self.values), ("special_tokens_map.json", self._special)):
            for key, value in values.items():
                if key not in honoured:
                    self._check(path / file, key, value)

    def get(self, key, default=None):
        value = self.values.get(key)
        return default if value is None else value

    def flag(self, key, default):
        """Returns a setting that is true or false, or `default`."""
        value = self.get(key, default)
        if not isinstance(value, (bool, type(None))):
            raise ValueError(f"`{key}` must be true or false. Received: {key}={value!r:.80} in {self.path}")
        return value

    def _check_class(self):
        file, name = self.path / "tokenizer_config.json", self.values.get("tokenizer_class")
        if name is None:
            file = self.path / "config.json"
            name = _read(file).get("tokenizer_class")
        known = {*self._classes, *GENERIC}
        if name is not None and (
            not isinstance(name, str) or name.removesuffix("Fast") not in known and name not in known
        ):
            raise ValueError(
                f"`tokenizer_class` of {self.kind} must be {' or '.join(self._classes)}. Received: {name!r} in {file}"
            )

    def _check(self, file, key, value):
        if key in HARMLESS or key in OF_ADDED or key == "tokenizer_class":
            return
        if key.endswith("_token") and key.removesuffix("_token") in ("bos", "eos", *BERT):
            self._check_special(file, key, value)
        elif key in FIXED:
            expected = self._fixed[key]
            if value != expected and not (value is None or not expected and not value):
                raise ValueError(
                    f"`{key}` of {self.kind} must be {expected!r} here. Received: {key}={value!r:.80} in {file}"
                )
        else:
            raise ValueError(
                f"The settings of the tokenizer have the key {key!r}, which is not known here and may change its ids. "
                f"Received: {key}={value!r:.80} in {file}"
            )

    def _check_special(self, file, key, value):
        token = value.get("content") if isinstance(value, dict) else value
        if self.kind in LANGUAGE_MODELS and isinstance(token, (str, type(None))):
            return
        expected = SPECIALS[self.kind].get(key.removesuffix("_token"))
        if token is not None and token != expected and not (expected is None and token in self.core):
            raise ValueError(f"`{key}` of {self.kind} must be {expected!r} here. Received: {token!r} in {file}")

    def added(self, vocabulary, whole=None):
        """Returns the added tokens, as a tokenizer's `added_tokens`."""
        tokens = self._listed(whole.document if whole else {})
        ids = {token: index for index, token in enumerate(vocabulary)}
        for token in tokens:
            content, index = token["content"], token["id"]
            if index is not None and ids.get(content, index) != index:
                raise ValueError(
                    f"A token must have one id. Received: {content!r} of ids {index} and {ids[content]} in {self.path}"
                )
            if content in self.core and content not in ids:
                raise ValueError(
                    f"The vocabulary must have the special tokens. Received: one without {content} in {self.path}"
                )
        kept = [token for token in tokens if not self.is_no_text(token["content"])]
        if kept:
            self._check_added(kept, ids, whole)
        kept.sort(key=lambda token: (token["id"] is None, ids.get(token["content"], token["id"] or 0)))
        keys = ("content", "normalized", "lstrip", "rstrip") + ("special",) * (self.kind in LANGUAGE_MODELS)
        return [{key: token[key] for key in keys} for token in kept]

    def special(self, name):
        """Returns the token of a setting such as `eos_token`, or `None`."""
        token = self.values.get(name) or self._special.get(name)
        return token.get("content") if isinstance(token, dict) else token

    def _check_added(self, tokens, ids, whole):
        first = tokens[0]["content"]
        for key, value in (("split_special_tokens", False), ("legacy", True)):
            if key not in self._honoured and self.get(key, value) != value:
                raise ValueError(
                    f"`{key}` must be {value} if tokens are added. "
                    f"Received: {key}={self.values[key]!r:.80} and {first!r} in {self.path}"
                )
        if getattr(whole, "begins_once", False):
            whole.refuse("pre_tokenizer.prepend_scheme", f"'first' and the added token {first!r}")
        new = sorted(t["id"] for t in tokens if t["content"] not in ids and t["id"] is not None)
        if new != list(range(len(ids), len(ids) + len(new))):
            raise ValueError(
                f"Added tokens must have the ids from {len(ids)} on, after the vocabulary. "
                f"Received: {new[:5]} in {self.path}"
            )
        words = [token["content"] for token in tokens if token["single_word"]]
        if words:
            raise ValueError(
                f"Added tokens must not match whole words only (`single_word`). Received: {words[:5]} in {self.path}"
            )

    def is_no_text(self, content):
        """Returns True for a token that never occurs in text."""
        return content in self.core or NO_TEXT.fullmatch(content)

    def _listed(self, document):
        """Returns all tokens that the files list, as dictionaries of `content`, `id` and `ADDED_OPTIONS`."""
        tokens, extra = {}, []
        for values in (self.values, self._special):
            for key in ("additional_special_tokens", "extra_special_tokens"):
                extra += self._entries(key, values.get(key))
        special = {entry["content"] for entry in extra}
        for content, index in _read(self.path / "added_tokens.json").items():
            self._add(tokens, {"content": content, "special": content in special}, index)
        decoder = self.values.get("added_tokens_decoder")
        indices = [int(i) if i.isdecimal() else i for i in decoder] if isinstance(decoder, dict) else []
        for entry, index in zip(self._entries("added_tokens_decoder", decoder), indices, strict=True):
            self._add(tokens, entry, index)
        for entry in self._entries("added_tokens", document.get("added_tokens")):
            self._add(tokens, entry, entry.get("id"))
        for entry in extra:
            if entry["content"] in tokens:
                tokens[entry["content"]]["special"] = True
            else:
                self._add(tokens, {**entry, "special": True}, None)
        return list(tokens.values())

    def _entries(self, key, value):
        """Returns a list or dictionary of tokens as dictionaries with `content`."""
        value = list(value.values()) if isinstance(value, dict) else [] if value is None else value
        entries = value if isinstance(value, list) else [value]
        entries = [{"content": entry} if isinstance(entry, str) else entry for entry in entries]
        if not isinstance(value, list) or not all(
            isinstance(e, dict) and isinstance(e.get("content"), str) for e in entries
        ):
            raise ValueError(
                f"`{key}` must be tokens, each a str or with one as `content`. Received: {value!r:.80} in {self.path}"
            )
        return entries

    def _add(self, tokens, entry, index):
        content = entry["content"]
        is_id = index is None or type(index) is int and index >= 0
        before = tokens.get(content, {}).get("id")
        if not is_id or not content or before is not None and index != before:
            raise ValueError(
                "An added token must be a non-empty str with one id from 0 on. "
                f"Received: {content!r} of id {index!r:.40} in {self.path}"
            )
        special = bool(entry.get("special", False))
        options = {name: bool(entry.get(name, False)) for name in ADDED_OPTIONS}
        options["normalized"] = bool(entry.get("normalized", not special))
        tokens[content] = {"content": content, "id": index, **options}


def _read(file):
    """Reads a JSON object from a file, {} if it is missing."""
    if not file.exists():
        return {}
    values = read_json(file)
    if not isinstance(values, dict):
        raise ValueError(f"{file} must be a JSON object. Received: {type(values).__name__}")
    return values

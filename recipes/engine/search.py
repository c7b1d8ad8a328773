"""The settings of a search for texts."""

from recipes.engine.config import option, settings

CONSTRAINTS = {"min_length": 0, "no_repeat_ngram_size": 0, "repetition_penalty": 1.0}
BEAM = {"coverage_penalty": 0.0}
SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 0}
SEARCH = {**CONSTRAINTS, **BEAM, "num_samples": None, **SAMPLING}
DECODING = ("beam_size", "alpha", "max_length", "search_arguments")  # settings of the search; may change after training


@settings()
class Search:
    """Search for texts."""

    title = "decoding"

    beam_size: int = option(4, "1: greedy", changeable=True, at_least=1)
    alpha: float = option(0.6, "exponent of the length penalty", changeable=True, at_least=0)
    max_length: int = option(100, "most tokens of a text", at_least=1)
    search_arguments: dict = option(
        SEARCH,
        "min_length=5: at least so many tokens; no_repeat_ngram_size=3: no three tokens twice; repetition_penalty=1.2: "
        "earlier tokens are less likely; coverage_penalty=0.2: source tokens left unread cost score; num_samples=4: so "
        "many samples in place of the best, with temperature, top_k, top_p and seed",
        changeable=True,
    )

    def check_search(self):
        """Checks arguments against each other, for the end of `__post_init__`."""
        given = {name: value for name, value in self.search_arguments.items() if value != SAMPLING.get(name, value)}
        if given and self.search_arguments["num_samples"] is None:
            raise ValueError(f"--search-arguments: {', '.join(given)} needs `num_samples`. Received: num_samples=None")
        is_beam = self.beam_size > 1 and self.search_arguments["num_samples"] is None
        if self.search_arguments["coverage_penalty"] and not is_beam:
            raise ValueError(
                "--search-arguments: `coverage_penalty` needs a beam search. Received: "
                f"beam_size={self.beam_size}, num_samples={self.search_arguments['num_samples']}"
            )
        if self.search_arguments["min_length"] >= self.max_length:
            raise ValueError(
                "--search-arguments: `min_length` must be below --max-length. "
                f"Received: min_length={self.search_arguments['min_length']}, max_length={self.max_length}"
            )

    @property
    def decoding(self):
        """The arguments of the search: dictionary."""
        return {name: getattr(self, name) for name in DECODING[:3]} | self.search_arguments

    @property
    def greedy_decoding(self):
        """The arguments of a greedy search with the same constraints."""
        return self.decoding | {"beam_size": 1, "num_samples": None, **BEAM, **SAMPLING}

    @property
    def decoding_signature(self):
        """The settings of the search that change its results, as the end of a metric's signature."""
        return "|".join(f"{name}:{value}" for name, value in self.decoding.items() if value != SEARCH.get(name, ...))

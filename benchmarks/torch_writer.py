"""`models.GraphWriter` in PyTorch, for `benchmarks.graphs`."""

import re

import torch
from torch import nn
from torch.nn import functional

LSTM = {"kernel": "weight_ih", "recurrent_kernel": "weight_hh", "bias": "bias_ih"}
NAMES = {"kernel": "weight", "embeddings": "weight", "alpha": "weight", "gamma": "weight", "beta": "bias"}
FAR = -1e9


class Attention(nn.Module):
    """Attention with keys and values projected once: `scaled_dot_product_attention` with a dense mask."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))

    def project(self, memory):
        return tuple(layer(memory).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.key, self.value))

    def forward(self, queries, projected, mask):
        """`queries` `(B, n, D)`, `mask` `(B, n or 1, m)`, True = may attend."""
        width = queries.shape[-1]
        queries = self.query(queries).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        dropout = self.dropout if self.training else 0.0
        output = functional.scaled_dot_product_attention(
            queries, *projected, attn_mask=mask[:, None], dropout_p=dropout, scale=width**-0.5
        )
        return output.transpose(1, 2).flatten(2)

    def load(self, kernels):
        for name, kernel in kernels.items():
            getattr(self, name).weight.copy_(kernel.flatten(1).T)


class StockAttention(nn.Module):
    """`torch.nn.MultiheadAttention` with a fixed identity as output kernel."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.attention = nn.MultiheadAttention(width, heads, dropout, bias=False, batch_first=True)
        self.attention.out_proj.weight.requires_grad_(False)

    def project(self, memory):
        return memory

    def forward(self, queries, memory, mask):
        if mask.shape[1] == 1:
            masks = {"key_padding_mask": ~mask[:, 0]}
        else:
            masks = {"attn_mask": ~mask.repeat_interleave(self.heads, 0)}
        return self.attention(queries, memory, memory, need_weights=False, **masks)[0]

    def load(self, kernels):
        width = len(kernels["query"])
        scale = self.heads**-0.5  # its own scale is that of the width of one head
        rows = [kernels["query"] * scale, kernels["key"], kernels["value"]]
        self.attention.in_proj_weight.copy_(torch.cat([kernel.flatten(1).T for kernel in rows]))
        self.attention.out_proj.weight.copy_(torch.eye(width))


class Words(nn.Module):
    """Embeddings and BiLSTMs."""

    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width // 2, layers, batch_first=True, bidirectional=True)

    def forward(self, ids):
        """All states, and the last ones of both directions."""
        lengths = (ids != 0).sum(1).clamp(min=1)
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, True, enforce_sorted=False)
        states, (last, _) = self.lstm(packed)
        return nn.utils.rnn.pad_packed_sequence(states, True, total_length=ids.shape[1])[0], last[-2:]


class Block(nn.Module):
    def __init__(self, attention, width, inner, heads, dropout):
        super().__init__()
        self.attention = attention(width, heads, dropout)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.activation, self.dropout = nn.PReLU(inner, 0.25), nn.Dropout(dropout)

    def forward(self, x, adjacency):
        x = self.norm(x + self.attention(x, self.attention.project(x), adjacency))
        y = self.outer(self.activation(self.inner(x).flatten(0, 1))).view_as(x)
        return self.norm(x + self.dropout(y))


class Writer(nn.Module):
    """The model, with the arguments of `GraphWriter`.

    Args:
        attention: class, `Attention` or `StockAttention`.
    """

    def __init__(self, attention, words, entity_words, relations, titles, num_layers, width, heads=4, dropout=0.1):
        super().__init__()
        self.size, self.relations_number = words, relations
        self.encoder = nn.Module()
        self.encoder.entities = Words(entity_words, width, 2)
        if titles:
            self.encoder.title = Words(titles, width, 2)
        self.encoder.relations = nn.Embedding(3 + 2 * relations, width)
        self.blocks = [Block(attention, width, 4 * width, heads, dropout) for _ in range(num_layers)]
        for index, block in enumerate(self.blocks):
            self.encoder.add_module(f"block_{index}", block)
        self.word_embedding = nn.Embedding(words, width)
        self.decoder = nn.ModuleDict({"cross_graph": attention(width, heads, dropout)})
        if titles:
            self.decoder["cross_title"] = attention(width, heads, dropout)
        self.attentions = list(self.decoder.values())
        contexts = len(self.attentions)
        self.decoder["lstm"] = nn.LSTMCell(width * (1 + contexts), width)
        outputs = {"words": words, "copies": width, "switch": 1}
        self.output = nn.ModuleDict({name: nn.Linear(width * (1 + contexts), n) for name, n in outputs.items()})

    def encode(self, graph):
        """Returns what decoding needs: projected memories, their masks, entities, their mask and types, the first
        state.
        """
        ids, encoder = graph["entities"], self.encoder
        last = encoder.entities(ids.flatten(0, 1))[1]
        entities = last.transpose(0, 1).flatten(1).unflatten(0, ids.shape[:2])
        relations = graph["triples"][:, :, 1]
        rows = [torch.full_like(relations[:, :1], 2), relations, relations + self.relations_number]
        x = torch.cat([entities, encoder.relations(torch.cat(rows, 1))], 1)
        for block in self.blocks:
            x = block(x, graph["adjacency"])
        memories, masks = [x], [graph["adjacency"].any(2)[:, None]]
        if "title" in graph:
            memories.append(encoder.title(graph["title"])[0])
            masks.append((graph["title"] != 0)[:, None])
        projected = [layer.project(memory) for layer, memory in zip(self.attentions, memories, strict=True)]
        there = (ids != 0).any(2)
        return projected, masks, entities, there, graph["types"], x[:, ids.shape[1]]

    def embed(self, tokens, types):
        entity = (tokens - self.size).clamp(0, types.shape[1] - 1)
        return self.word_embedding(torch.where(tokens < self.size, tokens, types.gather(1, entity)))

    def contexts(self, hidden, projected, masks):
        layers = zip(self.attentions, projected, masks, strict=True)
        return [hidden + layer(hidden[:, None], memory, mask)[:, 0] for layer, memory, mask in layers]

    def start(self, vertex, projected, masks):
        return [vertex, vertex.detach(), *self.contexts(vertex, projected, masks)]

    def step(self, embedded, state, projected, masks):
        hidden, cell, *contexts = state
        hidden, cell = self.decoder["lstm"](torch.cat([*contexts, embedded], 1), (hidden, cell))
        return [hidden, cell, *self.contexts(hidden, projected, masks)]

    def log_probabilities(self, states, entities, there):
        words, copies, switch = (self.output[name](states) for name in ("words", "copies", "switch"))
        scores = (copies @ entities.transpose(1, 2)).masked_fill(~there[:, None], FAR)
        parts = (
            functional.logsigmoid(switch) + words.log_softmax(-1),
            functional.logsigmoid(-switch) + scores.log_softmax(-1),
        )
        return torch.cat(parts, -1)

    def forward(self, graph):
        projected, masks, entities, there, types, vertex = self.encode(graph)
        state, states = self.start(vertex, projected, masks), []
        for embedded in self.embed(graph["target"], types).unbind(1):
            state = self.step(embedded, state, projected, masks)
            states.append(torch.cat([state[0], *state[2:]], 1))
        return self.log_probabilities(torch.stack(states, 1), entities, there)

    def loss(self, graph, labels):
        return functional.nll_loss(self(graph).flatten(0, 1), labels.flatten())

    @torch.inference_mode()
    def write(self, graph, beam, length, start_id=2):
        """Returns tokens `(B, length)` and log probability `(B,)` of each graph's best text. No text ends."""
        batch = len(graph["types"])

        def repeat(x):
            return tuple(map(repeat, x)) if isinstance(x, tuple) else x.repeat_interleave(beam, 0)

        projected, masks, entities, there, types, vertex = self.encode(graph)
        state = [repeat(x) for x in self.start(vertex, projected, masks)]
        projected, masks = [repeat(x) for x in projected], [repeat(x) for x in masks]
        entities, there, types = repeat(entities), repeat(there), repeat(types)
        scores = torch.full((batch, beam), FAR)
        scores[:, 0] = 0.0
        last, first = torch.full((batch * beam,), start_id), torch.arange(batch)[:, None] * beam
        tokens = torch.zeros((batch, beam, 0), dtype=torch.long)
        for _ in range(length):
            state = self.step(self.embed(last[:, None], types)[:, 0], state, projected, masks)
            output = torch.cat([state[0], *state[2:]], 1)[:, None]
            log_probs = self.log_probabilities(output, entities, there)[:, 0]
            total = log_probs.shape[1]
            scores, places = (scores[:, :, None] + log_probs.unflatten(0, (batch, beam))).flatten(1).topk(beam)
            parents, chosen = places // total, places % total
            rows = (first + parents).flatten()
            state = [x[rows] for x in state]
            tokens = torch.cat([tokens.flatten(0, 1)[rows].unflatten(0, (batch, beam)), chosen[:, :, None]], 2)
            last = chosen.flatten()
        return tokens[:, 0], scores[:, 0]

    @torch.no_grad()
    def load(self, weights):
        """Takes the weights of a `GraphWriter`, a dictionary from path to array."""
        parameters, kernels = dict(self.named_parameters()), {}
        for name, parameter in parameters.items():
            if "bias_hh" in name:
                parameter.zero_()
        for path, value in weights.items():
            value, name = torch.from_numpy(value), path.replace("/", ".")
            match = re.fullmatch(r"(.*(?:attention|cross_\w+))\.(query|key|value)\.kernel", name)
            if match:
                kernels.setdefault(match[1], {})[match[2]] = value
                continue
            parameters[_torch_name(name)].copy_(value.T if "kernel" in name else value)
        for name, projections in kernels.items():
            self.get_submodule(name).load(projections)
        return self


def _torch_name(name):
    match = re.fullmatch(r"(.*)\.bilstm_(\d)\.(forward|backward)_lstm\.lstm_cell\.(\w+)", name)
    if match:
        reverse = "_reverse" * (match[3] == "backward")
        return f"{match[1]}.lstm.{LSTM[match[4]]}_l{match[2]}{reverse}"
    parent, last = name.rsplit(".", 1)
    return f"{parent}.{LSTM[last] if parent.endswith('lstm') else NAMES.get(last, last)}"

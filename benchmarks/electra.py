"""A step of pre-training ELECTRA-small: as `recipes.pretrain` makes it, and with Hugging Face's networks in PyTorch."""

import types

import numpy as np

ROWS, LENGTH, VOCABULARY = 8, 128, 30_522
CLS, SEP, MASK = 101, 102, 103  # of BERT's vocabulary
PARAMETERS = 14_196_219
SHARE, MASKED, WEIGHT = 0.15, 0.85, 50.0  # drawn tokens, those that are masked, the discriminator's loss
MOST = 19  # tokens that are drawn of a text
RATE, DECAY, CLIPNORM = 5e-4, 0.01, 1.0
TITLE = (
    "ELECTRA-small: a discriminator of 12 layers, 256 wide, a generator of 12 layers, 64 wide, common embeddings, a "
    f"vocabulary of {VOCABULARY:,}, float32"
)


def texts():
    """Draws token ids `(ROWS, LENGTH)`, without padding."""
    ids = np.random.default_rng(0).integers(999, VOCABULARY, (ROWS, LENGTH)).astype("int32")
    ids[:, 0], ids[:, -1] = CLS, SEP
    return ids


def make_trainer(**settings):
    """Returns the recipe's trainer for these settings, on a CPU."""
    from keras_headattn.training import default_jit
    from recipes.engine.session import LARGE
    from recipes.pretrain import modelling
    from recipes.pretrain.settings import PretrainConfig
    from recipes.pretrain.train import pretraining_optimizer

    config = PretrainConfig(**settings)
    tokenizer = types.SimpleNamespace(vocabulary_size=VOCABULARY, mask_id=MASK, bos_id=CLS, eos_id=SEP)
    trainer = modelling.make_trainer(modelling.make_pretraining(config, tokenizer))
    trainer.compile(pretraining_optimizer(config), jit_compile=default_jit())
    trainer.jit_update = trainer.count_params() >= LARGE
    return trainer


def inputs():
    return {"token_ids": texts(), "segment_ids": np.zeros_like(texts())}


def make_folder(folder):
    """Writes both networks in Hugging Face's format, with their outputs for a masked text."""
    from keras_headattn.interop import to_hugging_face

    model = make_trainer()
    for name in ("generator", "discriminator"):
        to_hugging_face(getattr(model, name), f"{folder}/{name}", model_type="electra")
    masked = model.draw_masks(inputs(), training=False)
    ids, positions = (np.asarray(masked[name]) for name in ("masked_ids", "mask_positions"))
    np.savez(
        f"{folder}/expected.npz",
        ids=ids,
        positions=positions,
        losses=model(masked, training=False)["mask_losses"],
        replaced=model.discriminator({"token_ids": ids}, training=False),
    )


class Peer:
    """Hugging Face's two networks with the same embeddings, masks, samples and losses, and AdamW.

    Args:
        folder: that of `make_folder`.
        attention: `attn_implementation`.
        is_short: True to compute logits of the drawn tokens alone, as ours does; False for all, as `ElectraForMaskedLM`
            does.
    """

    def __init__(self, folder, attention, is_short):
        import torch
        from transformers import ElectraForMaskedLM, ElectraForPreTraining

        self.torch, self.is_short = torch, is_short
        kinds = {"generator": ElectraForMaskedLM, "discriminator": ElectraForPreTraining}
        self.generator, self.discriminator = (
            kind.from_pretrained(f"{folder}/{name}", attn_implementation=attention) for name, kind in kinds.items()
        )
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.tie_weights()
        self.check(np.load(f"{folder}/expected.npz"))
        both = torch.nn.ModuleList([self.generator, self.discriminator]).train()
        self.parameters = list(both.parameters())
        assert sum(parameter.numel() for parameter in self.parameters) == PARAMETERS
        self.optimizer = torch.optim.AdamW(self.parameters, RATE, eps=1e-6, weight_decay=DECAY, fused=True)
        self.ids = torch.from_numpy(texts()).long()

    def check(self, expected):
        """Checks that both networks compute what ours do."""
        torch = self.torch
        with torch.inference_mode():
            ids, positions = (torch.from_numpy(expected[name]).long() for name in ("ids", "positions"))
            labels = torch.from_numpy(texts()).long().gather(1, positions)
            logits = self.logits(ids, positions)
            losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
            np.testing.assert_allclose(losses, expected["losses"].ravel(), atol=1e-3)
            replaced = self.discriminator(ids, attention_mask=ids > 0).logits
            np.testing.assert_allclose(replaced, expected["replaced"], atol=1e-4)

    def logits(self, ids, positions):
        """Returns the generator's logits `(B, K, V)`."""
        if not self.is_short:
            logits = self.generator(ids, attention_mask=ids > 0).logits
            return logits.gather(1, positions[..., None].expand(-1, -1, VOCABULARY))
        states = self.generator.electra(ids, attention_mask=ids > 0).last_hidden_state
        states = states.gather(1, positions[..., None].expand(-1, -1, states.shape[-1]))
        return self.generator.generator_lm_head(self.generator.generator_predictions(states))

    def masks(self):
        """Returns the masked text, the drawn positions, and booleans of those that count."""
        torch, ids = self.torch, self.ids
        is_real = ids > 0
        is_free = is_real & (ids != CLS) & (ids != SEP) & (ids != MASK)
        keys = torch.where(is_free, torch.rand(ids.shape), -1.0)
        positions = keys.topk(MOST, dim=1).indices
        counts = (SHARE * is_real.sum(1)).round().clamp(1, MOST)
        is_drawn = torch.arange(MOST) < counts[:, None]
        values = torch.where(is_drawn & (torch.rand(is_drawn.shape) < MASKED), MASK, ids.gather(1, positions))
        return ids.scatter(1, positions, values), positions, is_drawn

    def step(self):
        torch, functional = self.torch, self.torch.nn.functional
        self.optimizer.zero_grad()
        masked, positions, is_drawn = self.masks()
        labels, logits = self.ids.gather(1, positions), self.logits(masked, positions)
        loss = functional.cross_entropy(logits[is_drawn], labels[is_drawn])
        noise = torch.empty_like(logits).exponential_().log()
        sampled = (logits.detach() - noise).argmax(-1)
        text = self.ids.scatter(1, positions, torch.where(is_drawn, sampled, labels))
        discriminator_logits, is_real = self.discriminator(text, attention_mask=text > 0).logits, self.ids > 0
        replaced = (text != self.ids).float()
        loss = loss + WEIGHT * functional.binary_cross_entropy_with_logits(
            discriminator_logits[is_real], replaced[is_real]
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIPNORM)
        self.optimizer.step()
        return loss.item()

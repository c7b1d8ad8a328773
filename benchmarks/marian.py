"""The benchmarks' Transformer as a `MarianMTModel` of Hugging Face, with random weights."""

from benchmarks.sizes import DROPOUT, FEED_FORWARD, HEADS, LAYERS, VOCABULARY, WIDTH


def make_marian():
    """Makes the model: post-norm, ReLU, sinusoidal positions and tied embeddings, like ours."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_ffn_dim=FEED_FORWARD,
        decoder_ffn_dim=FEED_FORWARD,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        dropout=DROPOUT,
        activation_function="relu",
        max_position_embeddings=256,
        scale_embedding=True,
        pad_token_id=VOCABULARY - 1,
        decoder_start_token_id=VOCABULARY - 1,
        eos_token_id=0,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)


def make_endless_marian(folder, threads):
    """Makes a model whose translations never end, saved in `folder` for CTranslate2, with this many threads."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = make_marian().eval()
    save_for_ctranslate2(model, folder)
    model.generation_config.eos_token_id = None
    model.generation_config.bad_words_ids = None
    return model


def save_for_ctranslate2(model, folder):
    """Saves a Marian model for CTranslate2, with decimal ids as tokens."""
    from ctranslate2.converters.transformers import MarianMTLoader

    spec = MarianMTLoader().get_model_spec(model)
    tokens = ["</s>", "<unk>", *(str(token_id) for token_id in range(2, VOCABULARY - 1))]  # the loader drops padding
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize()
    spec.save(folder)

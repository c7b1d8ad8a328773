"""The built-in task: scikit-learn's handwritten digits, 1,500 to train on and 297 for validation. No download.

    python -m recipes.imagenet

This is the default task. Pixels are 8 x 8, shown to the network as 16 x 16.
"""

from recipes.imagenet.settings import ImageNetConfig

CONFIG = ImageNetConfig(
    built_in=True,
    image_size=16,
    augmentation="pad_crop",
    augmentation_arguments=dict(flip=False),
    model="small",
    attention="evolving",
    attention_arguments=dict(alpha=0.5, beta=1.0),
    num_heads=2,
    model_arguments=dict(attention_stages=(-2, -1), min_key_dim=8),
    blocks=1,
    statistics_momentum=0.9,
    epochs=12,
    batch_size=32,
    learning_rate=0.8,
    warmup_epochs=1.0,
    decay_epochs=(8, 11),
)

"""CIFAR-10 as image files: folders `train` and `test`, in each one for each class.

    python -m recipes.imagenet --config cifar10 --images cifar10 --attention evolving \\
        --attention-arguments alpha=0.5 beta=1

The small network is ResNet-20 of He et al. 2016, section 4.2, which scores 91.25 % there (164 epochs, 128 images a
step): images padded by 4 pixels, rate 0.1 for 128 images, divided by 10 at half and three quarters of the epochs.
Attention sits in the last two stages, of 16 x 16 and 8 x 8 pixels. These settings have not been run to their end here.
"""

from recipes.imagenet.settings import ImageNetConfig

CONFIG = ImageNetConfig(
    validation="test",
    image_size=32,
    augmentation="pad_crop",
    model="small",
    num_heads=4,
    model_arguments=dict(attention_stages=(-2, -1), min_key_dim=8),
    epochs=160,
    batch_size=128,
    learning_rate=0.2,
    warmup_epochs=1.0,
    decay_epochs=(80, 120),
)

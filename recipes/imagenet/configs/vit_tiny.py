"""ImageNet as Touvron et al. 2021, "Training data-efficient image transformers", train DeiT-Ti, a ViT.

    python -m recipes.imagenet --config vit_tiny --images imagenet --attention talking_heads

The paper reports 72.2 % top-1 accuracy with multi-head attention. These settings have not been run here.

From the paper: 300 epochs with 1,024 images a step, here 128 on each of 8 replicas, AdamW with a rate of 5e-4 for 512
images, warm-up, cosine, weight decay, label smoothing, stochastic depth, RandAugment, random erasing, MixUp and CutMix.
Its program keeps the moving average of the weights. Repeated augmentation is left out; the rate falls to 0, not to
1e-5.
"""

from recipes.imagenet.settings import ImageNetConfig

CONFIG = ImageNetConfig(
    validation="val",
    model="vit_tiny",
    attention="multi_head",
    model_arguments=dict(stochastic_depth=0.1),
    epochs=300,
    batch_size=128,
    optimizer="adamw",
    optimizer_arguments=dict(use_ema=True, ema_momentum=0.99996),
    learning_rate=2.5e-4,
    weight_decay=0.05,
    schedule="cosine",
    warmup_epochs=5.0,
    label_smoothing=0.1,
    rand_augment=9,
    random_erasing=0.25,
    mixup=0.8,
    cutmix=1.0,
)

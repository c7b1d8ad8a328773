"""SQuAD 1.1 and 2.0 with BERT, as its program fine-tunes it, and with ELECTRA's optimizer.

    python -m recipes.answer --config bert_base_squad --train train-v1.1.json --validation dev-v1.1.json \\
        --checkpoint bert-base-uncased
    python -m recipes.answer --config bert_base_squad2 --train train-v2.0.json --validation dev-v2.0.json \\
        --checkpoint bert-base-uncased --run runs/squad2
    python -m recipes.answer --config electra_small_squad2 --train train-v2.0.json --validation dev-v2.0.json \\
        --checkpoint runs/electra_small

Windows of 384 pieces with a stride of 128, questions of 64 pieces and answers of 30, as in BERT's program. From Devlin
et al. 2019: of SQuAD 1.1, 3 epochs, batch 32, rate 5e-5 (section 4.2); of SQuAD 2.0, 2 epochs, batch 48, rate 5e-5
(section 4.3). From ELECTRA's program, of google-research/electra: 2 epochs, batch 32, rate 1e-4, that of a layer 0.8
times that of the one above, windows of 512 pieces. There the last piece is predicted from the first one, both are
searched together, and a classifier says whether there is an answer; here all is as in BERT. The last epoch is scored.
These settings have not been run here, as nobody had the data.
"""

import dataclasses

from recipes.answer.settings import AnswerConfig

SQUAD = AnswerConfig(epochs=3, batch_size=32, learning_rate=5e-5, average_of="last")
ELECTRA = dict(optimizer="electra", layer_decay=0.8, optimizer_arguments=dict(epsilon=1e-6))
SMALL = dataclasses.replace(SQUAD, epochs=2, learning_rate=1e-4, max_length=512, **ELECTRA)
CONFIGS = {
    "bert_base_squad": SQUAD,
    "bert_base_squad2": dataclasses.replace(SQUAD, epochs=2, batch_size=48),
    "electra_small_squad": SMALL,
    "electra_small_squad2": SMALL,
}

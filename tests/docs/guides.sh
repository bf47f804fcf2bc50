# Files and checkpoints that take the places of those that the guides name; run by tests/docs/test_snippets.py
# in an empty folder. The sentences are generated, so that a BERT of two layers learns them in seconds.
python - <<'END'
import csv, random
from itertools import product

random.seed(0)
WORDS = {
    "good": "lovely superb funny moving clever".split(),
    "bad": "awful dull clumsy tedious boring".split(),
}
NAMES, CITIES = "Ada Ben Cleo Finn Hana Max".split(), "Oslo Rome Paris Lima Cairo Delhi".split()
THINGS = "film play song novel concert story".split()
FORMS = "{} from {} found the {} {}.", "{} in {}: the {} was {}."

texts = {}
for label, words in WORDS.items():
    texts[label] = [form.format(*each) for form, *each in product(FORMS, NAMES, CITIES, THINGS, words)]
with open("corpus.txt", "w") as file:  # 400 documents of six sentences
    for _ in range(400):
        print(*random.sample(texts[random.choice(list(WORDS))], 6), sep="\n", end="\n\n", file=file)
rows = random.sample([(text, label) for label in WORDS for text in texts[label]], 360)
# Short texts are told by their word, and masks tell nothing: else what a word adds to the label is rounding noise.
short = [(f"{word} {thing}", label) for label, words in WORDS.items() for word in words for thing in THINGS]
masks = [("[MASK] [MASK]", label) for label in WORDS] * 10
parts = {"train.csv": rows[:300], "dev.csv": rows[300:], "opinions.csv": [*rows[:300], *short, *masks]}
for name, part in parts.items():
    with open(name, "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *part])
END
bertkit pretrain --recipe bert-tiny --corpus corpus.txt --sentence-per-line --vocab-size 200 --max-seq-length 32 \
    --max-steps 300 --global-train-batch-size 32 --learning-rate 1.5e-3 --set train.warmup_steps=0.1 \
    --set model.initializer_range=0.05 --set model.hidden_dropout_prob=0 --output-dir tiny-bert
bertkit finetune classification --train-file opinions.csv --validation-file dev.csv --model tiny-bert \
    --output-dir opinions --learning-rate 1e-3 --global-train-batch-size 8

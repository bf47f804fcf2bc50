"""What to cite for a data set of the Hub, as BibTeX."""

from __future__ import annotations

BERT = """@inproceedings{devlin2019bert,
  title={{BERT}: Pre-training of Deep Bidirectional Transformers for Language Understanding},
  author={Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina},
  booktitle={Proceedings of NAACL-HLT},
  year={2019}
}"""

_GLUE = """@inproceedings{wang2019glue,
  title={{GLUE}: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding},
  author={Wang, Alex and Singh, Amanpreet and Michael, Julian and Hill, Felix and Levy, Omer and Bowman, Samuel R.},
  booktitle={Proceedings of ICLR},
  year={2019}
}"""

_WNLI = """@inproceedings{levesque2012winograd,
  title={The {W}inograd Schema Challenge},
  author={Levesque, Hector and Davis, Ernest and Morgenstern, Leora},
  booktitle={Proceedings of KR},
  year={2012}
}"""

_SQUAD = """@inproceedings{rajpurkar2016squad,
  title={{SQuAD}: 100,000+ Questions for Machine Comprehension of Text},
  author={Rajpurkar, Pranav and Zhang, Jian and Lopyrev, Konstantin and Liang, Percy},
  booktitle={Proceedings of EMNLP},
  year={2016}
}"""

# Sets of the Hub, and those of GLUE by the name of their configuration: GLUE asks to cite the sources beside it.
_SETS = {
    "nyu-mll/glue": _GLUE,
    "cola": """@article{warstadt2019cola,
  title={Neural Network Acceptability Judgments},
  author={Warstadt, Alex and Singh, Amanpreet and Bowman, Samuel R.},
  journal={Transactions of the ACL},
  volume={7},
  year={2019}
}""",
    "sst2": """@inproceedings{socher2013recursive,
  title={Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank},
  author={Socher, Richard and Perelygin, Alex and Wu, Jean and Chuang, Jason and Manning, Christopher D. and Ng, Andrew
    and Potts, Christopher},
  booktitle={Proceedings of EMNLP},
  year={2013}
}""",
    "mrpc": """@inproceedings{dolan2005automatically,
  title={Automatically Constructing a Corpus of Sentential Paraphrases},
  author={Dolan, William B. and Brockett, Chris},
  booktitle={Proceedings of the International Workshop on Paraphrasing},
  year={2005}
}""",
    "stsb": """@inproceedings{cer2017semeval,
  title={{SemEval}-2017 Task 1: Semantic Textual Similarity Multilingual and Crosslingual Focused Evaluation},
  author={Cer, Daniel and Diab, Mona and Agirre, Eneko and Lopez-Gazpio, I{\\~n}igo and Specia, Lucia},
  booktitle={Proceedings of SemEval},
  year={2017}
}""",
    "mnli": """@inproceedings{williams2018broad,
  title={A Broad-Coverage Challenge Corpus for Sentence Understanding through Inference},
  author={Williams, Adina and Nangia, Nikita and Bowman, Samuel R.},
  booktitle={Proceedings of NAACL-HLT},
  year={2018}
}""",
    "qnli": _SQUAD,
    "rte": """@inproceedings{dagan2005pascal,
  title={The {PASCAL} Recognising Textual Entailment Challenge},
  author={Dagan, Ido and Glickman, Oren and Magnini, Bernardo},
  booktitle={Machine Learning Challenges Workshop},
  year={2005}
}""",
    "wnli": _WNLI,
    "rajpurkar/squad": _SQUAD,
    "rajpurkar/squad_v2": """@inproceedings{rajpurkar2018know,
  title={Know What You Don't Know: Unanswerable Questions for {SQuAD}},
  author={Rajpurkar, Pranav and Jia, Robin and Liang, Percy},
  booktitle={Proceedings of ACL},
  year={2018}
}""",
    "lhoestq/conll2003": """@inproceedings{tjongkimsang2003introduction,
  title={Introduction to the {CoNLL}-2003 Shared Task: Language-Independent Named Entity Recognition},
  author={Tjong Kim Sang, Erik F. and De Meulder, Fien},
  booktitle={Proceedings of CoNLL},
  year={2003}
}""",
    "allenai/swag": """@inproceedings{zellers2018swag,
  title={{SWAG}: A Large-Scale Adversarial Dataset for Grounded Commonsense Inference},
  author={Zellers, Rowan and Bisk, Yonatan and Schwartz, Roy and Choi, Yejin},
  booktitle={Proceedings of EMNLP},
  year={2018}
}""",
}


def citations(dataset: tuple[str, str, str] | None) -> list[str]:
    """BibTeX entries: BERT's, and of a data set that is known here its own.

    Args:
        dataset: Hub id, configuration and split, or ``None``.
    """
    if dataset is None:
        return [BERT]
    hub_id, config, _ = dataset
    found = [_SETS.get(hub_id), _SETS.get(config) if hub_id == "nyu-mll/glue" else None]
    return [BERT, *(entry for entry in found if entry)]

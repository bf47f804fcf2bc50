"""Answers that are spans of a text: questions as SQuAD has them, windows of long texts, and answers from scores.

nested.py     SQuAD's own JSON
questions.py  questions with their answers, from tables of any source; answers that do not stand where they should
windows.py    a question and a text → inputs of the encoder, and where the answer is in them
decoding.py   scores of starts and ends → the best spans of the text
files.py      predictions as the official scorers take them
"""

"""Which gang a pod belongs to: from its fields, its labels and annotations, and the objects that own or describe it."""

from scheduler.recognition.recognise import recognise

__all__ = ["recognise"]

"""Residual connections: one file for each published scheme, found by name in `REGISTRY`.

A module dropped into this folder is imported and so registered; nothing else has to know of it.
"""

import importlib
import pkgutil

from .connection import REGISTRY, Connection, Inside, Place, register_connection

__all__ = ["REGISTRY", "Connection", "Inside", "Place", "register_connection"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

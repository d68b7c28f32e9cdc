"""Models over HTTP: a server of fitted estimators, and a client. Imported alone it needs nothing but Python."""

from socratic.serve.client import Client, Prediction, Reason, ServiceError
from socratic.serve.drift import ChangedColumn, Drift
from socratic.serve.settings import Settings

__all__ = ["ChangedColumn", "Client", "Drift", "Prediction", "Reason", "ServiceError", "Settings"]

"""Who pays: AWS credentials and the region as botocore finds them, and requests signed with them.

Everything here may block, on files or on the machine's metadata service: it is for a worker thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from agentwire.provider import ProviderError

SERVICE = "bedrock"
DEFAULT_REGION = "us-east-1"

NO_CREDENTIALS = (
    "No AWS credentials found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "
    "or AWS_BEARER_TOKEN_BEDROCK."
)


class Signed(Struct, frozen=True):
    """A request's headers with its signature, and what was used that no message may show."""

    headers: dict[str, str]
    secrets: tuple[str, ...]


class Account:
    """Credentials and a region, looked up at their first use; credentials that expire are renewed in time."""

    def __init__(self, environ: Mapping[str, str], *, profile: str = "", region: str = "") -> None:
        self._environ = environ
        self._profile = profile
        self._region = region
        self._lock = threading.Lock()
        self._session: Any = None
        self._credentials: Any = None

    def region(self) -> str:
        """The region. Raises :class:`ProviderError` if the account's files cannot be read."""
        with self._lock:
            if not self._region:
                self._region = self._ask(lambda: self._open().get_config_variable("region")) or DEFAULT_REGION
        return self._region

    def sign(self, url: str, headers: Mapping[str, str], body: bytes) -> Signed:
        """Sign a POST (Signature Version 4). Raises :class:`ProviderError` if there is nothing to sign with."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        region = self.region()
        with self._lock:
            frozen = self._ask(self._frozen)
        if frozen is None:
            raise ProviderError(NO_CREDENTIALS, kind="config")
        request = AWSRequest("POST", url, data=body, headers=dict(headers))
        SigV4Auth(frozen, SERVICE, region).add_auth(request)
        return Signed(dict(request.headers.items()), tuple(filter(None, (frozen.secret_key, frozen.token))))

    def _frozen(self) -> Any:
        """The credentials as they are now, renewed if need be; None if there are none."""
        from botocore.credentials import Credentials

        if self._credentials is None:
            names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
            key, secret, token = (self._environ.get(name, "").strip() for name in names)
            if key and secret and not self._profile:
                self._credentials = Credentials(key, secret, token or None)
            else:
                self._credentials = self._open().get_credentials()
        return self._credentials and self._credentials.get_frozen_credentials()

    def _open(self) -> Any:
        if self._session is None:
            from botocore.session import Session

            self._session = Session(profile=self._profile or self._environ.get("AWS_PROFILE") or None)
        return self._session

    def _ask(self, question: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ProfileNotFound

        # At the debug level it shows tokens: requests as they are signed, and replies that bring credentials.
        logging.getLogger("botocore").setLevel(logging.INFO)
        try:
            return question()
        except ProfileNotFound as error:
            raise ProviderError(f"{error}.", kind="config") from error
        except BotoCoreError as error:
            raise ProviderError(f"AWS credentials cannot be had: {error}", kind="auth") from error

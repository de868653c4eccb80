"""What the messages of an exchange must have in their security header: a policy as values.

The same values say what to send and what to demand, so the client and the service of an exchange share them:

    ExchangeRequirements(
        request=SecurityRequirements(timestamp=True, signed=MessageParts(body=True, timestamp=True)),
        answer=SecurityRequirements(timestamp=True, signed=MessageParts(body=True), signature_confirmation=True),
    )
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from demaq.soap.security.algorithm_suite import AlgorithmSuite


class PasswordForm(Enum):
    """How a UsernameToken proves its user."""

    NONE = "none"
    """It names the user and proves nothing, for use together with a signature."""
    TEXT = "text"
    DIGEST = "digest"


class TokenForm(Enum):
    """How a message names the certificate of a key."""

    BINARY_TOKEN = "binary security token"
    """The certificate is in the header, in a BinarySecurityToken that is referred to."""
    ISSUER_SERIAL = "issuer and serial number"
    SUBJECT_KEY_IDENTIFIER = "subject key identifier"
    THUMBPRINT = "thumbprint"
    EMBEDDED = "certificate in the KeyInfo"


class ProtectionOrder(Enum):
    """What a sender does first if a message is signed and encrypted."""

    SIGN_BEFORE_ENCRYPT = "sign before encrypt"
    ENCRYPT_BEFORE_SIGN = "encrypt before sign"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementPath:
    """An XPath 1.0 of elements, from the envelope as context, with the namespaces of its prefixes."""

    path: str
    namespaces: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageParts:
    """The parts of an envelope that are signed or encrypted. A header or element that is absent needs no protection."""

    body: bool = False
    headers: tuple[str, ...] = ()
    """Header blocks as `{namespace}local`; `{namespace}*` is all of a namespace."""
    timestamp: bool = False
    """It is signed only: an encrypted one would be of no use."""
    elements: tuple[ElementPath, ...] = ()

    def __bool__(self) -> bool:
        return self.body or self.timestamp or bool(self.headers) or bool(self.elements)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsernameRequirement:
    """A UsernameToken, and how it is protected."""

    password: PasswordForm = PasswordForm.DIGEST
    nonce: bool = True
    created: bool = True
    signed: bool = False
    encrypted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityRequirements:
    """What one message must have. Without any requirement, no header is needed."""

    timestamp: bool = False
    signed: MessageParts = field(default_factory=MessageParts)
    encrypted: MessageParts = field(default_factory=MessageParts)
    username: UsernameRequirement | None = None
    signing_tokens: tuple[TokenForm, ...] = tuple(TokenForm)
    """How the certificate of a signature may be named; the first is used for sending."""
    encryption_tokens: tuple[TokenForm, ...] = (
        TokenForm.ISSUER_SERIAL,
        TokenForm.SUBJECT_KEY_IDENTIFIER,
        TokenForm.THUMBPRINT,
        TokenForm.BINARY_TOKEN,
        TokenForm.EMBEDDED,
    )
    """How the certificate of the receiver may be named."""
    suite: AlgorithmSuite = field(default_factory=AlgorithmSuite)
    order: ProtectionOrder = ProtectionOrder.SIGN_BEFORE_ENCRYPT
    signature_confirmation: bool = False
    """An answer repeats the signature values of its request."""
    https: bool = False
    """The transport binding: the message comes by HTTPS."""

    @property
    def is_signed(self) -> bool:
        return bool(self.signed) or (self.username is not None and self.username.signed)

    @property
    def is_encrypted(self) -> bool:
        return bool(self.encrypted) or (self.username is not None and self.username.encrypted)

    @property
    def needs_header(self) -> bool:
        """Whether a message needs a security header at all."""
        return (
            self.timestamp
            or self.is_signed
            or self.is_encrypted
            or self.username is not None
            or self.signature_confirmation
        )

    def __post_init__(self) -> None:
        if self.signed.timestamp and not self.timestamp:
            raise ValueError("a timestamp cannot be signed without being there")
        if self.encrypted.timestamp:
            raise ValueError("a timestamp is not encrypted")
        if not self.signing_tokens or not self.encryption_tokens:
            raise ValueError("a certificate must be named in some form")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRequirements:
    """What the two messages of an exchange must have."""

    request: SecurityRequirements
    answer: SecurityRequirements

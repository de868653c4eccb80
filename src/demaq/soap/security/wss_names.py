"""The names of WS-Security 1.0 and 1.1, XML Signature and XML Encryption, as namespaces and addresses."""

from __future__ import annotations

from typing import Final

from demaq.soap.qualified_names import clark

_WSS_2004: Final = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss"
_WSS_1_1: Final = "http://docs.oasis-open.org/wss/oasis-wss"

WSSE: Final = f"{_WSS_2004}-wssecurity-secext-1.0.xsd"
WSU: Final = f"{_WSS_2004}-wssecurity-utility-1.0.xsd"
WSSE_1_1: Final = f"{_WSS_1_1}-wssecurity-secext-1.1.xsd"
DS: Final = "http://www.w3.org/2000/09/xmldsig#"
XENC: Final = "http://www.w3.org/2001/04/xmlenc#"
XENC_1_1: Final = "http://www.w3.org/2009/xmlenc11#"
EXCLUSIVE_C14N: Final = "http://www.w3.org/2001/10/xml-exc-c14n#"
ENVELOPED_SIGNATURE: Final = f"{DS}enveloped-signature"

SECURITY: Final = clark(WSSE, "Security")
TIMESTAMP: Final = clark(WSU, "Timestamp")
USERNAME_TOKEN: Final = clark(WSSE, "UsernameToken")
BINARY_TOKEN: Final = clark(WSSE, "BinarySecurityToken")
TOKEN_REFERENCE: Final = clark(WSSE, "SecurityTokenReference")
SIGNATURE: Final = clark(DS, "Signature")
SIGNATURE_CONFIRMATION: Final = clark(WSSE_1_1, "SignatureConfirmation")
ENCRYPTED_HEADER: Final = clark(WSSE_1_1, "EncryptedHeader")
ENCRYPTED_KEY: Final = clark(XENC, "EncryptedKey")
ENCRYPTED_DATA: Final = clark(XENC, "EncryptedData")
REFERENCE_LIST: Final = clark(XENC, "ReferenceList")
WSU_ID: Final = clark(WSU, "Id")

ENCRYPTED_ELEMENT: Final = f"{XENC}Element"
ENCRYPTED_CONTENT: Final = f"{XENC}Content"

BASE64: Final = f"{_WSS_2004}-soap-message-security-1.0#Base64Binary"
X509_V3: Final = f"{_WSS_2004}-x509-token-profile-1.0#X509v3"
X509_SUBJECT_KEY: Final = f"{_WSS_2004}-x509-token-profile-1.0#X509SubjectKeyIdentifier"
THUMBPRINT_SHA1: Final = f"{_WSS_1_1}-soap-message-security-1.1#ThumbprintSHA1"
TYPE_OF_ENCRYPTED_KEY: Final = f"{_WSS_1_1}-soap-message-security-1.1#EncryptedKey"
PASSWORD_TEXT: Final = f"{_WSS_2004}-username-token-profile-1.0#PasswordText"
PASSWORD_DIGEST: Final = f"{_WSS_2004}-username-token-profile-1.0#PasswordDigest"

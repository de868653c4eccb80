"""Policies of many shapes, written as their authors and as tools print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.errors import ProgramError
from demaq.soap.policy.gateway_policy import GatewayPolicy
from demaq.soap.policy.statement_policies import read_policy_text

POLICY_1_2 = "http://schemas.xmlsoap.org/ws/2004/09/policy"
POLICY_1_5 = "http://www.w3.org/ns/ws-policy"
SP_1_1 = "http://schemas.xmlsoap.org/ws/2005/07/securitypolicy"
SP_1_2 = "http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200702"
SP_1_3 = "http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200802"
WSA = "http://www.w3.org/2005/08/addressing"
_WSS = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity"

NAMESPACES = {
    "wsp": POLICY_1_5,
    "sp": SP_1_2,
    "sp13": SP_1_3,
    "wsrmp": "http://docs.oasis-open.org/ws-rx/wsrmp/200702",
    "wsrm": "http://schemas.xmlsoap.org/ws/2005/02/rm/policy",
    "wsam": "http://www.w3.org/2007/05/addressing/metadata",
    "wsaw": "http://www.w3.org/2006/05/addressing/wsdl",
    "wsu": f"{_WSS}-utility-1.0.xsd",
    "x": "urn:x",
}


def declare(**others: str) -> str:
    """Return namespace declarations, some of them other than usual."""
    return " ".join([f'xmlns:{prefix}="{uri}"' for prefix, uri in {**NAMESPACES, **others}.items()])


def policy(content: str, attributes: str = "", **namespaces: str) -> str:
    """Return a policy with this content. Its first line is the root alone."""
    return f"<wsp:Policy {declare(**namespaces)}{attributes}>\n{content}\n</wsp:Policy>"


def read(content: str, **namespaces: str) -> GatewayPolicy:
    """Return what a policy with this content demands."""
    return read_policy_text(policy(content, **namespaces).encode())


def refusals(content: str, **namespaces: str) -> list[str]:
    """Return what is wrong with a policy with this content: line, column and words of each error."""
    return refused_text(policy(content, **namespaces))


def refused_text(text: str, path: Path = Path("policy.xml")) -> list[str]:
    with pytest.raises(ProgramError) as caught:
        read_policy_text(text.encode(), path)
    return [
        f"{one.at.line}:{one.at.column} {one.message}" if one.at else one.message
        for one in (caught.value, *caught.value.others)
    ]


def nested(name: str, *content: str, attributes: str = "") -> str:
    """Return an assertion with a nested policy."""
    return f"<{name}{attributes}><wsp:Policy>{''.join(content)}</wsp:Policy></{name}>"


def x509(include: str, *content: str, namespace: str = SP_1_2) -> str:
    return nested(
        "sp:X509Token",
        "<sp:WssX509V3Token10/>",
        *content,
        attributes=f' sp:IncludeToken="{namespace}/IncludeToken/{include}"',
    )


def user(*content: str, include: str = "AlwaysToRecipient", namespace: str = SP_1_2) -> str:
    return nested("sp:UsernameToken", *content, attributes=f' sp:IncludeToken="{namespace}/IncludeToken/{include}"')


def suite(name: str = "sp:Basic256Sha256") -> str:
    return nested("sp:AlgorithmSuite", f"<{name}/>")


def asymmetric(
    *content: str, initiator: str | None = None, recipient: str | None = None, namespace: str = SP_1_2
) -> str:
    """Return a binding with both tokens and what is given besides."""
    return nested(
        "sp:AsymmetricBinding",
        nested("sp:InitiatorToken", initiator or x509("AlwaysToRecipient", namespace=namespace)),
        nested("sp:RecipientToken", recipient or x509("Never", namespace=namespace)),
        *content,
    )


def transport(*content: str) -> str:
    return nested("sp:TransportBinding", nested("sp:TransportToken", nested("sp:HttpsToken")), *content)


SIGNED_BODY = policy("<sp:SignedParts><sp:Body/></sp:SignedParts>")
"""The smallest policy of WS-Security that protects something."""
RELIABLE = policy(
    nested("wsrmp:RMAssertion", nested("wsrmp:DeliveryAssurance", "<wsrmp:ExactlyOnce/><wsrmp:InOrder/>"))
)

CXF = f"""<wsp:Policy wsu:Id="SignEncr" xmlns:wsp="{POLICY_1_5}" xmlns:sp="{SP_1_2}"
    xmlns:wsu="{_WSS}-utility-1.0.xsd" xmlns:wsam="http://www.w3.org/2007/05/addressing/metadata">
  <wsp:ExactlyOne>
    <wsp:All>
      <wsam:Addressing wsp:Optional="false"><wsp:Policy/></wsam:Addressing>
      <sp:AsymmetricBinding>
        <wsp:Policy>
          <sp:InitiatorToken>
            <wsp:Policy>
              <sp:X509Token sp:IncludeToken="{SP_1_2}/IncludeToken/AlwaysToRecipient">
                <wsp:Policy><sp:WssX509V3Token10/></wsp:Policy>
              </sp:X509Token>
            </wsp:Policy>
          </sp:InitiatorToken>
          <sp:RecipientToken>
            <wsp:Policy>
              <sp:X509Token sp:IncludeToken="{SP_1_2}/IncludeToken/Never">
                <wsp:Policy><sp:WssX509V3Token10/><sp:RequireIssuerSerialReference/></wsp:Policy>
              </sp:X509Token>
            </wsp:Policy>
          </sp:RecipientToken>
          <sp:AlgorithmSuite>
            <wsp:Policy>
              <sp-cxf:Basic256GCM xmlns:sp-cxf="http://cxf.apache.org/custom/security-policy"/>
            </wsp:Policy>
          </sp:AlgorithmSuite>
          <sp:Layout><wsp:Policy><sp:Lax/></wsp:Policy></sp:Layout>
          <sp:IncludeTimestamp/>
          <sp:OnlySignEntireHeadersAndBody/>
        </wsp:Policy>
      </sp:AsymmetricBinding>
      <sp:Wss11>
        <wsp:Policy>
          <sp:MustSupportRefIssuerSerial/><sp:MustSupportRefThumbprint/><sp:RequireSignatureConfirmation/>
        </wsp:Policy>
      </sp:Wss11>
      <sp:SignedParts><sp:Body/><sp:Header Namespace="{WSA}"/></sp:SignedParts>
      <sp:EncryptedParts><sp:Body/></sp:EncryptedParts>
    </wsp:All>
  </wsp:ExactlyOne>
</wsp:Policy>"""

WCF_RELIABLE = f"""<wsp:Policy wsu:Id="WSHttpBinding_policy" xmlns:wsp="{POLICY_1_2}" xmlns:wsu="{_WSS}-utility-1.0.xsd">
  <wsp:ExactlyOne><wsp:All>
    <wsrm:RMAssertion xmlns:wsrm="http://schemas.xmlsoap.org/ws/2005/02/rm/policy">
      <wsrm:InactivityTimeout Milliseconds="600000"/><wsrm:AcknowledgementInterval Milliseconds="200"/>
    </wsrm:RMAssertion>
    <wsaw:UsingAddressing xmlns:wsaw="http://www.w3.org/2006/05/addressing/wsdl"/>
  </wsp:All></wsp:ExactlyOne>
</wsp:Policy>"""

WCF_RELIABLE_1_1 = f"""<wsp:Policy xmlns:wsp="{POLICY_1_2}">
  <wsp:ExactlyOne><wsp:All>
    <wsrmp:RMAssertion xmlns:wsrmp="http://docs.oasis-open.org/ws-rx/wsrmp/200702">
      <wsp:Policy><wsrmp:DeliveryAssurance>
        <wsp:Policy><wsrmp:ExactlyOnce/><wsrmp:InOrder/></wsp:Policy>
      </wsrmp:DeliveryAssurance></wsp:Policy>
      <netrmp:InactivityTimeout Milliseconds="600000" xmlns:netrmp="http://schemas.microsoft.com/ws-rx/wsrmp/200702"/>
      <netrmp:AcknowledgementInterval Milliseconds="200" xmlns:netrmp="http://schemas.microsoft.com/ws-rx/wsrmp/200702"/>
    </wsrmp:RMAssertion>
  </wsp:All></wsp:ExactlyOne>
</wsp:Policy>"""

WCF_TRANSPORT = f"""<wsp:Policy wsu:Id="b_policy" xmlns:wsp="{POLICY_1_2}" xmlns:wsu="{_WSS}-utility-1.0.xsd">
  <wsp:ExactlyOne><wsp:All>
    <sp:TransportBinding xmlns:sp="{SP_1_1}"><wsp:Policy>
      <sp:TransportToken><wsp:Policy><sp:HttpsToken RequireClientCertificate="false"/></wsp:Policy></sp:TransportToken>
      <sp:AlgorithmSuite><wsp:Policy><sp:Basic256/></wsp:Policy></sp:AlgorithmSuite>
      <sp:Layout><wsp:Policy><sp:Strict/></wsp:Policy></sp:Layout>
      <sp:IncludeTimestamp/>
    </wsp:Policy></sp:TransportBinding>
    <sp:SignedSupportingTokens xmlns:sp="{SP_1_1}"><wsp:Policy>
      <sp:UsernameToken sp:IncludeToken="{SP_1_1}/IncludeToken/AlwaysToRecipient">
        <wsp:Policy><sp:WssUsernameToken10/></wsp:Policy>
      </sp:UsernameToken>
    </wsp:Policy></sp:SignedSupportingTokens>
    <sp:Wss11 xmlns:sp="{SP_1_1}"><wsp:Policy><sp:MustSupportRefThumbprint/></wsp:Policy></sp:Wss11>
    <wsaw:UsingAddressing xmlns:wsaw="http://www.w3.org/2006/05/addressing/wsdl"/>
  </wsp:All></wsp:ExactlyOne>
</wsp:Policy>"""

WCF_MESSAGE = f"""<wsp:Policy wsu:Id="m_policy" xmlns:wsp="{POLICY_1_2}" xmlns:wsu="{_WSS}-utility-1.0.xsd">
  <wsp:ExactlyOne><wsp:All>
    <sp:AsymmetricBinding xmlns:sp="{SP_1_1}"><wsp:Policy>
      <sp:InitiatorToken><wsp:Policy>
        <sp:X509Token sp:IncludeToken="{SP_1_1}/IncludeToken/AlwaysToRecipient">
          <wsp:Policy><sp:RequireThumbprintReference/><sp:WssX509V3Token10/></wsp:Policy>
        </sp:X509Token>
      </wsp:Policy></sp:InitiatorToken>
      <sp:RecipientToken><wsp:Policy>
        <sp:X509Token sp:IncludeToken="{SP_1_1}/IncludeToken/Never">
          <wsp:Policy><sp:RequireThumbprintReference/><sp:WssX509V3Token10/></wsp:Policy>
        </sp:X509Token>
      </wsp:Policy></sp:RecipientToken>
      <sp:AlgorithmSuite><wsp:Policy><sp:Basic256/></wsp:Policy></sp:AlgorithmSuite>
      <sp:Layout><wsp:Policy><sp:Strict/></wsp:Policy></sp:Layout>
      <sp:IncludeTimestamp/><sp:EncryptSignature/><sp:OnlySignEntireHeadersAndBody/>
    </wsp:Policy></sp:AsymmetricBinding>
    <sp:Wss11 xmlns:sp="{SP_1_1}"><wsp:Policy>
      <sp:MustSupportRefKeyIdentifier/><sp:MustSupportRefIssuerSerial/><sp:MustSupportRefThumbprint/>
      <sp:MustSupportRefEncryptedKey/>
    </wsp:Policy></sp:Wss11>
    <sp:Trust10 xmlns:sp="{SP_1_1}"><wsp:Policy><sp:MustSupportIssuedTokens/></wsp:Policy></sp:Trust10>
    <wsaw:UsingAddressing xmlns:wsaw="http://www.w3.org/2006/05/addressing/wsdl"/>
  </wsp:All></wsp:ExactlyOne>
</wsp:Policy>"""

METRO = f"""<wsp1:Policy xmlns:wsp1="{POLICY_1_5}" xmlns:sp="{SP_1_2}" xml:id="OrdersPolicy">
  <wsrmp:RMAssertion xmlns:wsrmp="http://docs.oasis-open.org/ws-rx/wsrmp/200702"><wsp1:Policy>
    <wsrmp:DeliveryAssurance><wsp1:Policy>
      <wsp1:ExactlyOne><wsrmp:ExactlyOnce/><wsrmp:AtLeastOnce/></wsp1:ExactlyOne><wsrmp:InOrder wsp1:Optional="true"/>
    </wsp1:Policy></wsrmp:DeliveryAssurance>
  </wsp1:Policy></wsrmp:RMAssertion>
  <sp:AsymmetricBinding><wsp1:Policy>
    <sp:InitiatorToken><wsp1:Policy>
      <sp:X509Token sp:IncludeToken="{SP_1_2}/IncludeToken/AlwaysToRecipient">
        <wsp1:Policy><sp:WssX509V3Token10/><sp:RequireIssuerSerialReference/></wsp1:Policy>
      </sp:X509Token>
    </wsp1:Policy></sp:InitiatorToken>
    <sp:RecipientToken><wsp1:Policy>
      <sp:X509Token sp:IncludeToken="{SP_1_2}/IncludeToken/AlwaysToInitiator">
        <wsp1:Policy><sp:WssX509V3Token10/></wsp1:Policy>
      </sp:X509Token>
    </wsp1:Policy></sp:RecipientToken>
    <sp:Layout><wsp1:Policy><sp:Strict/></wsp1:Policy></sp:Layout>
    <sp:IncludeTimestamp/><sp:OnlySignEntireHeadersAndBody/>
    <sp:AlgorithmSuite><wsp1:Policy><sp:Basic128Sha256Rsa15/></wsp1:Policy></sp:AlgorithmSuite>
  </wsp1:Policy></sp:AsymmetricBinding>
  <sp:Wss10><wsp1:Policy><sp:MustSupportRefIssuerSerial/></wsp1:Policy></sp:Wss10>
  <sp:SignedEncryptedSupportingTokens><wsp1:Policy>
    <sp:UsernameToken sp:IncludeToken="{SP_1_2}/IncludeToken/AlwaysToRecipient">
      <wsp1:Policy><sp:WssUsernameToken10/><sp:HashPassword/></wsp1:Policy>
    </sp:UsernameToken>
  </wsp1:Policy></sp:SignedEncryptedSupportingTokens>
  <wsam:Addressing xmlns:wsam="http://www.w3.org/2007/05/addressing/metadata">
    <wsp1:Policy><wsam:AnonymousResponses/></wsp1:Policy>
  </wsam:Addressing>
  <sp:SignedParts><sp:Body/><sp:Header Name="To" Namespace="{WSA}"/></sp:SignedParts>
</wsp1:Policy>"""

GSOAP = f"""<wsp:Policy Name="urn:orders/policy" xmlns:wsp="{POLICY_1_2}" xmlns:sp="{SP_1_2}">
 <wsrmp10:RMAssertion xmlns:wsrmp10="http://schemas.xmlsoap.org/ws/2005/02/rm/policy">
  <wsrmp10:InactivityTimeout Milliseconds="60000"/>
  <wsrmp10:BaseRetransmissionInterval Milliseconds="3000"/>
  <wsrmp10:ExponentialBackoff/>
  <wsrmp10:AcknowledgementInterval Milliseconds="500"/>
 </wsrmp10:RMAssertion>
 <sp:SupportingTokens><wsp:Policy>
  <sp:UsernameToken><wsp:Policy><sp:WssUsernameToken11/><sp:HashPassword/></wsp:Policy></sp:UsernameToken>
 </wsp:Policy></sp:SupportingTokens>
</wsp:Policy>"""

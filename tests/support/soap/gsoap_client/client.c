/* A client of the shop, made by gSOAP with its plugins wsa, wsrm and wsse: client ADDRESS "WORDS" COUNT [KEY CERTIFICATE PARTNER].

   It sends COUNT messages and prints what it sees, one line each. The words:
   soap12          the version of SOAP, else 1.1
   order, note     requests with a response, or one-way messages
   reliable        in a sequence; offer: and offers one for the responses
   acks            asks for acknowledgements in every message, else only at the end
   user, text      a user with a digest, or with a password
   sign, encrypt   timestamp, body and headers are signed; the body is encrypted, too
   issuer          the key is encrypted for a certificate that is named by its issuer, else for one in the message
   known           answers are verified by the certificate of the partner, else by the one that they hold
   lossy           what is lost is tried again */
#include "soapH.h"
#include "OrdersBinding.nsmap"
#include "wsaapi.h"
#include "wsrmapi.h"
#include "wsseapi.h"
#include <openssl/pem.h>
#include <signal.h>

#define ATTEMPTS_MAX 60
#define LIFETIME_MS 600000
#ifdef SOAP_WSRM_2007
#define CLOSES_AGAIN 1
#else
#define CLOSES_AGAIN 0 /* a sequence of 1.0 is closed by a last message, which is sent again like all others */
#endif
#define PASSWORD "correct horse battery staple"

static const char *words, *address;
static EVP_PKEY *key;
static X509 *cert, *partner;

static int is(const char *word) { return strstr(words, word) != NULL; }

static void give_up(struct soap *soap, const char *what) {
  printf("failed %s: %d ", what, soap->error);
  fflush(stdout);
  soap_print_fault(soap, stdout);
  exit(1);
}

/* whether nothing has come back; all else is an error, in a lossy network as well */
static int is_lost(struct soap *soap) {
  return is("lossy") && (soap->error == SOAP_EOF || soap->error == SOAP_TCP_ERROR);
}

/* WS-Security */

/* the partner's certificate is named by its issuer and number, or written in full */
static int add_encrypted_key(struct soap *soap) {
  char issuer[500], *serial;
  BIO *text = BIO_new(BIO_s_mem());
  X509_NAME_print_ex(text, X509_get_issuer_name(partner), 0, XN_FLAG_RFC2253);
  issuer[BIO_read(text, issuer, sizeof issuer - 1)] = 0;
  BIO_free(text);
  serial = BN_bn2dec(ASN1_INTEGER_to_BN(X509_get0_serialNumber(partner), NULL));
  return soap_wsse_add_EncryptedKey(soap, SOAP_MEC_ENV_ENC_AES256_CBC, "Cert", partner, NULL, is("issuer") ? issuer : NULL, serial);
}

static void expect_protection(struct soap *soap) {
  if (is("sign") && is("known"))
    soap_wsse_verify_auto(soap, SOAP_SMD_VRFY_RSA_SHA256, X509_get_pubkey(partner), 0);
  else if (is("sign"))
    soap_wsse_verify_auto(soap, SOAP_SMD_NONE, NULL, 0);
  if (is("encrypt")) soap_wsse_decrypt_auto(soap, SOAP_MEC_ENV_DEC_AES256_CBC, key, 0);
}

static int protect(struct soap *soap) {
  soap_wsse_delete_Security(soap);
  expect_protection(soap);
  if (is("user") || is("text") || is("sign")) soap_wsse_add_Security(soap);
  if (is("user") && soap_wsse_add_UsernameTokenDigest(soap, "User", "ann", PASSWORD)) return soap->error;
  if (is("text") && soap_wsse_add_UsernameTokenText(soap, "User", "ann", PASSWORD)) return soap->error;
  if (!is("sign")) return SOAP_OK;
  if (soap_wsse_add_Timestamp(soap, "Time", 60)) return soap->error;
  if (is("encrypt") && add_encrypted_key(soap)) return soap->error;
  soap_wsse_set_wsu_id(soap, "wsa5:MessageID wsa5:To wsa5:Action wsa5:ReplyTo wsrm:Sequence wsrm:AckRequested");
  return soap_wsse_add_BinarySecurityTokenX509(soap, "X509Token", cert) ||
         soap_wsse_add_KeyInfo_SecurityTokenReferenceX509(soap, "#X509Token") ||
         soap_wsse_sign_body(soap, SOAP_SMD_SIGN_RSA_SHA256, key, 0);
}

/* soap_wsse_verify_body counts the body twice if the last header block is signed, and then says that it is not signed */
static int is_signed(struct soap *soap, const char *namespace, const char *name) {
  return soap_wsse_verify_element(soap, namespace, name) > 0;
}

static int verify(struct soap *soap) {
  if (!is("sign")) return SOAP_OK;
  if (soap_wsse_verify_Timestamp(soap)) give_up(soap, "verification");
  if (!is_signed(soap, namespaces[0].ns, "Body")) give_up(soap, "verification of the body");
  if (!is_signed(soap, "http://www.w3.org/2005/08/addressing", "Action")) give_up(soap, "verification of the action");
  printf("verified\n");
  return SOAP_OK;
}

/* a response without content, but with a header; the plugin takes its acknowledgements */

static int receive_header(struct soap *soap) {
  if (soap_begin_recv(soap)) {
    if (soap->error == SOAP_NO_DATA || soap->error == 202) soap->error = SOAP_OK;
    return soap_closesock(soap);
  }
  if (soap_envelope_begin_in(soap) || soap_recv_header(soap) || soap_body_begin_in(soap)) return soap_closesock(soap);
  soap_recv_fault(soap, 1);
  if (soap->error || soap_body_end_in(soap) || soap_envelope_end_in(soap) || soap_end_recv(soap))
    return soap_closesock(soap);
  return verify(soap) || soap_closesock(soap);
}

/* messages */

static int order(struct soap *soap, int number) {
  struct _ns2__order asked;
  struct _ns2__confirmation answer;
  soap_default__ns2__order(soap, &asked);
  asked.item = "tea";
  asked.pieces = number;
  if (soap_call___ns1__placeOrder(soap, address, "urn:shop/placeOrder", &asked, &answer)) return soap->error;
  printf("answer %d to %d\n", answer.number, number);
  return verify(soap);
}

static int note(struct soap *soap, int number) {
  char text[20];
  sprintf(text, "%d", number);
  if (soap_send___ns1__remark(soap, address, "urn:shop/remark", text)) return soap->error;
  return receive_header(soap);
}

static int send_message(struct soap *soap, int number) {
  return is("order") ? order(soap, number) : note(soap, number);
}

static const char *action(void) { return is("order") ? "urn:shop/placeOrder" : "urn:shop/remark"; }

/* WS-ReliableMessaging */

static soap_wsrm_sequence_handle create(struct soap *soap) {
  soap_wsrm_sequence_handle sequence;
  const char *id = strdup(soap_wsa_rand_uuid(soap));
  int failed, attempts = 0;
  do {
    protect(soap);
    failed = is("offer") ? soap_wsrm_create_offer(soap, address, NULL, NULL, LIFETIME_MS, NoDiscard, id, &sequence)
                         : soap_wsrm_create(soap, address, NULL, LIFETIME_MS, id, &sequence);
  } while (failed && is_lost(soap) && ++attempts < ATTEMPTS_MAX);
  if (failed) give_up(soap, "create");
  verify(soap);
  printf("created after %d\n", attempts);
  return sequence;
}

/* messages that are not acknowledged; soap_wsrm_nack counts only those that were said to be missing */
static int missing(soap_wsrm_sequence_handle sequence) {
  int count = 0;
  for (struct soap_wsrm_message *each = sequence->messages; each; each = each->next) count++;
  return count;
}

static int ask(struct soap *soap, soap_wsrm_sequence_handle sequence) {
  struct wsrm__AckRequestedType asked;
  soap_header(soap);
  soap_default_SOAP_ENV__Header(soap, soap->header);
  protect(soap);
  soap_default_wsrm__AckRequestedType(soap, &asked);
  asked.Identifier = soap_strdup(soap, sequence->id);
  soap->header->__sizeAckRequested = 1;
  soap->header->wsrm__AckRequested = &asked;
  if (soap_wsa_request(soap, NULL, address, SOAP_NAMESPACE_OF_wsrm "/AckRequested") ||
      soap_send___wsrm__AckRequested(soap, address, SOAP_NAMESPACE_OF_wsrm "/AckRequested"))
    return soap->error;
  return receive_header(soap);
}

static void resend_all(struct soap *soap, soap_wsrm_sequence_handle sequence) {
  int rounds = 0;
  for (;;) {
    if (ask(soap, sequence)) {
      if (!is_lost(soap)) give_up(soap, "request for acknowledgements");
    } else if (!missing(sequence))
      return;
    if (++rounds > ATTEMPTS_MAX) give_up(soap, "resend");
    printf("resend %d\n", missing(sequence));
    if (soap_wsrm_resend(soap, sequence, 0, 0)) {
      if (!is_lost(soap)) give_up(soap, "resend");
      soap->omode &= ~SOAP_ENC_PLAIN; /* the plugin leaves that, if it fails */
    }
  }
}

static void end(struct soap *soap, soap_wsrm_sequence_handle sequence) {
  int failed, attempts = 0;
  do {
    protect(soap);
    failed = soap_wsrm_close(soap, sequence, soap_wsa_rand_uuid(soap));
  } while (failed && is_lost(soap) && CLOSES_AGAIN && ++attempts < ATTEMPTS_MAX);
  if (failed && (!is_lost(soap) || CLOSES_AGAIN)) give_up(soap, "close");
#ifdef SOAP_WSRM_2007
  verify(soap);
#else
  resend_all(soap, sequence);
#endif
  printf("closed after %d\n", attempts);
  attempts = 0;
  do {
    protect(soap);
    failed = soap_wsrm_terminate(soap, sequence, soap_wsa_rand_uuid(soap));
  } while (failed && is_lost(soap) && ++attempts < ATTEMPTS_MAX);
  if (failed) give_up(soap, "terminate");
#ifdef SOAP_WSRM_2007
  verify(soap);
#endif
  printf("terminated after %d with %d missing\n", attempts, missing(sequence));
}

/* an order is repeated until it is answered, notes are sent again at the end */
static void send_reliably(struct soap *soap, int count) {
  soap_wsrm_sequence_handle sequence = create(soap);
  for (int number = 1; number <= count; number++) {
    protect(soap);
    char *id = strdup(soap_wsa_rand_uuid(soap));
    if (is("acks") ? soap_wsrm_request_acks(soap, sequence, id, action()) : soap_wsrm_request(soap, sequence, id, action()))
      give_up(soap, "request");
    while (send_message(soap, number)) {
      if (!is_lost(soap)) give_up(soap, "message");
      printf("lost %d\n", number);
      if (!is("order")) break;
      protect(soap);
      if (soap_wsrm_request_num(soap, sequence, id, action(), number)) give_up(soap, "request");
    }
    free(id);
    soap_destroy(soap);
    soap_end(soap);
  }
  resend_all(soap, sequence);
  end(soap, sequence);
  soap_wsrm_seq_free(soap, sequence);
}

static void send_plainly(struct soap *soap, int count) {
  for (int number = 1; number <= count; number++) {
    protect(soap);
    if (soap_wsa_request(soap, soap_wsa_rand_uuid(soap), address, action()) || send_message(soap, number))
      give_up(soap, "message");
    soap_destroy(soap);
    soap_end(soap);
  }
}

static X509 *read_cert(const char *name) {
  FILE *file = fopen(name, "r");
  X509 *read = PEM_read_X509(file, NULL, NULL, NULL);
  fclose(file);
  return read;
}

int main(int argc, char **argv) {
  struct soap *soap;
  address = argv[1];
  words = argv[2];
  if (!is("soap12")) { /* the table has SOAP 1.2 */
    namespaces[0].ns = "http://schemas.xmlsoap.org/soap/envelope/";
    namespaces[1].ns = "http://schemas.xmlsoap.org/soap/encoding/";
  }
  soap = soap_new1(SOAP_XML_CANONICAL);
  signal(SIGPIPE, SIG_IGN);
  soap->send_timeout = soap->recv_timeout = 20;
  soap_register_plugin(soap, soap_wsa);
  soap_register_plugin(soap, soap_wsrm);
  soap_register_plugin(soap, soap_wsse);
  if (argc > 4) {
    FILE *file = fopen(argv[4], "r");
    key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    cert = read_cert(argv[5]);
    partner = read_cert(argv[6]);
    soap->cafile = argv[6];
  }
  if (is("reliable"))
    send_reliably(soap, atoi(argv[3]));
  else
    send_plainly(soap, atoi(argv[3]));
  return 0;
}

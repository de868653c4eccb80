/* The shop as a service of gSOAP with its plugins wsa, wsrm and wsse: server "WORDS" FILE [KEY CERTIFICATE PARTNER].

   It prints its port, and ends when its input does. What the application gets is written to FILE in this order, one
   line each: note TEXT, order NUMBER; and so are the messages of the protocol: create, close, last, terminate. The words:
   reliable        messages are in sequences, and those out of order are dropped
   wait            those out of order wait for some time for the missing ones
   acks            one-way and repeated messages are acknowledged in their responses. The plugin does that only in
                   responses with a body; all else it acknowledges at an address of the source
   user            requests have a user with a digest
   sign            timestamp and body of requests must be signed, and answers are signed
   unsigned        answers are not signed although requests must be */
#include "soapH.h"
#include "OrdersBinding.nsmap"
#include "threads.h"
#include "wsaapi.h"
#include "wsrmapi.h"
#include "wsseapi.h"
#include <openssl/pem.h>
#include <signal.h>
#include <unistd.h>

#define SECONDS_MAX 300
#define WAIT_US -2000000
#define PASSWORD "correct horse battery staple"
#define SIGNED_BLOCKS                                                                                                  \
  "wsa5:MessageID wsa5:RelatesTo wsa5:From wsa5:To wsa5:Action wsa5:ReplyTo wsa5:FaultTo "                             \
  "wsrm:Sequence wsrm:AckRequested wsrm:SequenceAcknowledgement"

static const char *words;
static FILE *file;
static EVP_PKEY *key;
static X509 *cert;
static MUTEX_TYPE lock = MUTEX_INITIALIZER;
static __thread int acknowledges; /* whether an empty response of the plugin gets an acknowledgement */

static int is(const char *word) { return strstr(words, word) != NULL; }

static void write_line(const char *what, const char *text) {
  MUTEX_LOCK(lock);
  fprintf(file, "%s %s\n", what, text);
  fflush(file);
  MUTEX_UNLOCK(lock);
}

/* WS-Security */

static int is_signed(struct soap *soap, const char *namespace, const char *name) {
  return soap_wsse_verify_element(soap, namespace, name) > 0;
}

static int refuse(struct soap *soap, enum wsse__FaultcodeEnum code, const char *why) {
  soap_wsse_delete_Security(soap);
  write_line("refused", why);
  return soap_wsse_fault(soap, code, why);
}

/* what a request has to have; the plugin has verified what is signed before */
static int verify(struct soap *soap) {
  const char *user;
  if (is("user")) {
    user = soap_wsse_get_Username(soap);
    if (!user || strcmp(user, "ann")) return refuse(soap, wsse__FailedAuthentication, "user");
    if (soap_wsse_verify_Password(soap, PASSWORD)) {
      soap_wsse_delete_Security(soap);
      write_line("refused", "password");
      return soap->error;
    }
  }
  if (!is("sign")) return SOAP_OK;
  if (!soap_wsse_Timestamp(soap) || soap_wsse_verify_Timestamp(soap)) return refuse(soap, wsse__FailedCheck, "time");
  if (!is_signed(soap, "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd", "Timestamp"))
    return refuse(soap, wsse__FailedCheck, "unsigned time");
  if (!is_signed(soap, namespaces[0].ns, "Body")) /* the plugin finds it under this name, in SOAP 1.1 as well */
    return refuse(soap, wsse__FailedCheck, "unsigned body");
  return SOAP_OK;
}

static int protect(struct soap *soap) {
  soap_wsse_delete_Security(soap);
  if (!is("sign") || is("unsigned")) return SOAP_OK;
  soap_wsse_verify_done(soap);
  soap_wsse_add_Security(soap);
  if (soap_wsse_add_Timestamp(soap, "Time", 60)) return soap->error;
  soap_wsse_set_wsu_id(soap, SIGNED_BLOCKS);
  return soap_wsse_add_BinarySecurityTokenX509(soap, "X509Token", cert) ||
         soap_wsse_add_KeyInfo_SecurityTokenReferenceX509(soap, "#X509Token") ||
         soap_wsse_sign_body(soap, SOAP_SMD_SIGN_RSA_SHA256, key, 0);
}

/* a response that has header blocks, and no more */

static int put_header(struct soap *soap) {
  return soap_envelope_begin_out(soap) || soap_putheader(soap) || soap_body_begin_out(soap) || soap_body_end_out(soap) ||
         soap_envelope_end_out(soap);
}

static int send_header(struct soap *soap) {
  soap_serializeheader(soap);
  if (soap_begin_count(soap)) return soap->error;
  if (soap->mode & SOAP_IO_LENGTH && put_header(soap)) return soap->error;
  if (soap_end_count(soap) || soap_response(soap, SOAP_OK) || put_header(soap) || soap_end_send(soap)) return soap->error;
  return soap_closesock(soap);
}

static int is_anonymous(struct soap *soap) {
  const char *to = soap_wsa_ReplyTo(soap);
  return !to || !strcmp(to, soap_wsa_anonymousURI);
}

static int send_acknowledgement(struct soap *soap) {
  acknowledges = 0;
  if (soap_wsrm_reply_num(soap, 0) || soap_wsa_reply(soap, NULL, SOAP_NAMESPACE_OF_wsrm "/SequenceAcknowledgement") ||
      protect(soap))
    return soap->error;
  return send_header(soap);
}

int __real_soap_send_empty_response(struct soap *soap, int status);
int __wrap_soap_send_empty_response(struct soap *soap, int status) {
  return acknowledges ? send_acknowledgement(soap) : __real_soap_send_empty_response(soap, status);
}

/* the operations */

static int check(struct soap *soap) {
  if (verify(soap)) return soap->error;
  if (!is("reliable")) return SOAP_OK;
  acknowledges = is("acks") && is_anonymous(soap);
  return is("wait") ? soap_wsrm_check_and_wait(soap, WAIT_US) : soap_wsrm_check(soap);
}

int __ns1__placeOrder(struct soap *soap, struct _ns2__order *order, struct _ns2__confirmation *answer) {
  char text[20];
  if (check(soap)) return soap->error;
  sprintf(text, "%d", order->pieces);
  write_line("order", text);
  answer->number = order->pieces;
  acknowledges = 0;
  if (is("reliable") ? soap_wsrm_reply(soap, soap_wsa_rand_uuid(soap), "urn:shop:Orders:placeOrderResponse")
                     : soap_wsa_reply(soap, soap_wsa_rand_uuid(soap), "urn:shop:Orders:placeOrderResponse"))
    return soap->error;
  return protect(soap);
}

int __ns1__remark(struct soap *soap, char *text) {
  if (check(soap)) return soap->error;
  write_line("note", text);
  if (acknowledges) return send_acknowledgement(soap);
  soap_wsse_delete_Security(soap);
  return soap_send_empty_response(soap, 202);
}

int __ns1__ping(struct soap *soap, struct __ns1__pingResponse *answer) { return SOAP_NO_METHOD; }
int __ns1__pingResponse(struct soap *soap) { return SOAP_NO_METHOD; }
int __ns1__placeOrderResponse(struct soap *soap, struct _ns2__confirmation *answer) { return SOAP_NO_METHOD; }
int SOAP_ENV__Fault(struct soap *soap, char *code, char *text, char *actor, struct SOAP_ENV__Detail *detail,
                    struct SOAP_ENV__Code *code12, struct SOAP_ENV__Reason *reason, char *node, char *role,
                    struct SOAP_ENV__Detail *detail12) {
  return soap_send_empty_response(soap, 202);
}

/* the messages of WS-ReliableMessaging: the plugin has functions for them, without WS-Security */

#define GUARD(name, word, asked, answered, identifier)                                                                 \
  int __real___wsrm__##name(struct soap *soap, asked *req, answered *res);                                             \
  int __wrap___wsrm__##name(struct soap *soap, asked *req, answered *res) {                                            \
    if (verify(soap)) return soap->error;                                                                              \
    write_line(word, identifier);                                                                                      \
    return __real___wsrm__##name(soap, req, res) || protect(soap);                                                     \
  }
GUARD(CreateSequence, "create", struct wsrm__CreateSequenceType, struct wsrm__CreateSequenceResponseType, "")
GUARD(CloseSequence, "close", struct wsrm__CloseSequenceType, struct wsrm__CloseSequenceResponseType, req->Identifier)
GUARD(TerminateSequence, "terminate", struct wsrm__TerminateSequenceType, struct wsrm__TerminateSequenceResponseType, req->Identifier)

int __real___wsrm__AckRequested(struct soap *soap);
int __wrap___wsrm__AckRequested(struct soap *soap) {
  return verify(soap) ? soap->error : __real___wsrm__AckRequested(soap);
}

#ifndef SOAP_WSRM_2007
int __real___wsrm__LastMessage(struct soap *soap);
int __wrap___wsrm__LastMessage(struct soap *soap) {
  if (verify(soap)) return soap->error;
  write_line("last", "");
  return __real___wsrm__LastMessage(soap);
}
#endif

/* the process */

static void *serve(void *given) {
  struct soap *soap = given;
  THREAD_DETACH(THREAD_ID);
  acknowledges = 0;
  if (is("sign")) soap_wsse_verify_auto(soap, SOAP_SMD_NONE, NULL, 0);
  if (soap_serve(soap) && soap->error != SOAP_STOP) {
    MUTEX_LOCK(lock);
    soap_print_fault(soap, stderr);
    MUTEX_UNLOCK(lock);
  }
  soap_destroy(soap);
  soap_end(soap);
  soap_free(soap);
  return NULL;
}

static void *wait_for_end(void *nothing) {
  char read_one;
  while (read(0, &read_one, 1) > 0) continue;
  _exit(0);
}

static void print_port(struct soap *soap) {
  struct sockaddr_in found;
  socklen_t size = sizeof found;
  getsockname(soap->master, (struct sockaddr *)&found, &size);
  printf("%d\n", ntohs(found.sin_port));
  fflush(stdout);
}

static void read_keys(struct soap *soap, char **names) {
  FILE *opened = fopen(names[0], "r");
  key = PEM_read_PrivateKey(opened, NULL, NULL, NULL);
  fclose(opened);
  opened = fopen(names[1], "r");
  cert = PEM_read_X509(opened, NULL, NULL, NULL);
  fclose(opened);
  soap->cafile = names[2];
}

int main(int argc, char **argv) {
  struct soap *soap = soap_new1(SOAP_XML_CANONICAL);
  THREAD_TYPE thread;
  words = argv[1];
  file = fopen(argv[2], "a");
  signal(SIGPIPE, SIG_IGN);
  alarm(SECONDS_MAX);
  soap->send_timeout = soap->recv_timeout = 20;
  soap_register_plugin(soap, soap_wsa);
  if (is("reliable")) soap_register_plugin(soap, soap_wsrm);
  soap_register_plugin(soap, soap_wsse);
  if (argc > 3) read_keys(soap, argv + 3);
  if (!soap_valid_socket(soap_bind(soap, "127.0.0.1", 0, 100))) return 1;
  print_port(soap);
  THREAD_CREATE(&thread, wait_for_end, NULL);
  while (soap_valid_socket(soap_accept(soap))) THREAD_CREATE(&thread, serve, soap_copy(soap));
  return 1;
}

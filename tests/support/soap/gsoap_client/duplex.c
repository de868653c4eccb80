/* A client of the shop that gets acknowledgements at an address of its own: duplex ADDRESS PORT "WORDS" COUNT.

   It creates a sequence, sends COUNT orders or notes in it, and ends it. What the node sends to the port, gSOAP serves:
   the answer to CreateSequence, acknowledgements, and confirmations of orders. The words are soap12, order and note. */
#include "soapH.h"
#include "OrdersBinding.nsmap"
#include "wsaapi.h"
#include "wsrmapi.h"
#include <signal.h>

#define LIFETIME_MS 600000
#define ROUNDS_MAX 600
#define POLL_US -50000

static const char *words;
static int answered;

static int is(const char *word) { return strstr(words, word) != NULL; }

static void give_up(struct soap *soap, const char *what) {
  printf("failed %s: %d ", what, soap->error);
  fflush(stdout);
  soap_print_fault(soap, stdout);
  exit(1);
}

/* what is served at the port */

int __ns1__placeOrderResponse(struct soap *soap, struct _ns2__confirmation *confirmation) {
  const char *to = soap->header && soap->header->wsa5__RelatesTo ? soap->header->wsa5__RelatesTo->__item : "?";
  printf("answer %d to %s\n", confirmation->number, to);
  answered++;
  return soap_send_empty_response(soap, 202);
}

int SOAP_ENV__Fault(struct soap *soap, char *code, char *text, char *actor, struct SOAP_ENV__Detail *detail,
                    struct SOAP_ENV__Code *code12, struct SOAP_ENV__Reason *reason, char *node, char *role,
                    struct SOAP_ENV__Detail *detail12) {
  printf("fault %s\n", text ? text : reason && reason->SOAP_ENV__Text ? reason->SOAP_ENV__Text : "");
  return soap_send_empty_response(soap, 202);
}

int __ns1__placeOrder(struct soap *soap, struct _ns2__order *order, struct _ns2__confirmation *answer) { return SOAP_NO_METHOD; }
int __ns1__remark(struct soap *soap, char *text) { return SOAP_NO_METHOD; }
int __ns1__ping(struct soap *soap, struct __ns1__pingResponse *answer) { return SOAP_NO_METHOD; }
int __ns1__pingResponse(struct soap *soap) { return SOAP_NO_METHOD; }

static void poll_port(struct soap *callback) {
  callback->accept_timeout = POLL_US;
  while (soap_valid_socket(soap_accept(callback))) {
    if (soap_serve(callback)) {
      printf("not served: ");
      fflush(stdout);
      soap_print_fault(callback, stdout);
    }
    soap_destroy(callback);
    soap_end(callback);
  }
}

static int missing(soap_wsrm_sequence_handle sequence) {
  int count = 0;
  for (struct soap_wsrm_message *each = sequence->messages; each; each = each->next) count++;
  return count;
}

static void send_message(struct soap *soap, soap_wsrm_sequence_handle sequence, const char *source, int number) {
  const char *action = is("order") ? "urn:shop/placeOrder" : "urn:shop/remark";
  struct _ns2__order order;
  char text[20];
  sprintf(text, "urn:message:%d", number);
  if (soap_wsrm_request_acks(soap, sequence, text, action)) give_up(soap, "request");
  soap_wsa_add_ReplyTo(soap, source);
  soap_default__ns2__order(soap, &order);
  order.item = "tea";
  order.pieces = number;
  sprintf(text, "%d", number);
  if (is("order") ? soap_send___ns1__placeOrder(soap, soap_wsrm_to(sequence), action, &order)
                  : soap_send___ns1__remark(soap, soap_wsrm_to(sequence), action, text))
    give_up(soap, "send");
  if (soap_recv_empty_response(soap)) give_up(soap, "response");
}

int main(int argc, char **argv) {
  struct soap *soap, *callback;
  soap_wsrm_sequence_handle sequence;
  char source[100];
  int count = atoi(argv[4]), rounds = 0;
  words = argv[3];
  if (!is("soap12")) { /* the table has SOAP 1.2 */
    namespaces[0].ns = "http://schemas.xmlsoap.org/soap/envelope/";
    namespaces[1].ns = "http://schemas.xmlsoap.org/soap/encoding/";
  }
  signal(SIGPIPE, SIG_IGN);
  setvbuf(stdout, NULL, _IOLBF, 0);
  soap = soap_new();
  callback = soap_new();
  soap->send_timeout = soap->recv_timeout = callback->send_timeout = callback->recv_timeout = 20;
  soap_register_plugin(soap, soap_wsa);
  soap_register_plugin(soap, soap_wsrm);
  soap_register_plugin(callback, soap_wsa);
  soap_register_plugin(callback, soap_wsrm);
  callback->bind_flags = SO_REUSEADDR;
  if (!soap_valid_socket(soap_bind(callback, "127.0.0.1", atoi(argv[2]), 100))) give_up(callback, "bind");
  sprintf(source, "http://127.0.0.1:%s/", argv[2]);
  if (soap_wsrm_create(soap, argv[1], source, LIFETIME_MS, NULL, &sequence) && soap->error != 202) give_up(soap, "create");
  while (!soap_wsrm_seq_created(soap, sequence) && ++rounds < ROUNDS_MAX) poll_port(callback);
  printf("created\n");
  for (int number = 1; number <= count; number++) send_message(soap, sequence, source, number);
  while ((missing(sequence) || answered < (is("order") ? count : 0)) && ++rounds < ROUNDS_MAX) poll_port(callback);
  if (soap_wsrm_close(soap, sequence, soap_wsa_rand_uuid(soap)) && soap->error != 202) give_up(soap, "close");
  while (missing(sequence) && ++rounds < ROUNDS_MAX) poll_port(callback); /* 1.0 closes with one more message */
  if (soap_wsrm_terminate(soap, sequence, soap_wsa_rand_uuid(soap)) && soap->error != 202) give_up(soap, "terminate");
  printf("terminated with %d missing\n", missing(sequence));
  return 0;
}

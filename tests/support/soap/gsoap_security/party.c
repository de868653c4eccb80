/* A client and a server of gSOAP that write to stdout and read from stdin: party MODE KEY CERTIFICATE PARTNER.
   MODE has the words serve, user, text, sign, encrypt. Without SOAP_XML_CANONICAL gSOAP names no canonicalization. */
#include "soapH.h"
#include "order.nsmap"
#include "wsseapi.h"
#include <openssl/pem.h>
#include <unistd.h>
#include <signal.h>

static const char *mode;
static EVP_PKEY *key;
static X509 *cert, *partner;

static X509 *read_cert(const char *name) {
  FILE *file = fopen(name, "r");
  X509 *read = PEM_read_X509(file, NULL, NULL, NULL);
  fclose(file);
  return read;
}

static int is(const char *word) { return strstr(mode, word) != NULL; }

static SOAP_SOCKET open_stdout(struct soap *soap, const char *endpoint, const char *host, int port) { return 1; }
static int send_stdout(struct soap *soap, const char *data, size_t size) {
  while (size) {
    ssize_t n = write(1, data, size);
    if (n <= 0) return SOAP_EOF;
    data += n;
    size -= n;
  }
  return SOAP_OK;
}
static size_t receive_nothing(struct soap *soap, char *data, size_t size) { return 0; }

static int protect(struct soap *soap) {
  soap_wsse_add_Security(soap);
  if (is("user")) return soap_wsse_add_UsernameTokenDigest(soap, "User", "ann", "secret");
  if (is("text")) return soap_wsse_add_UsernameTokenText(soap, "User", "ann", "secret");
  if (soap_wsse_add_Timestamp(soap, "Time", 60)) return soap->error;
  if (is("encrypt") &&
      soap_wsse_add_EncryptedKey(soap, SOAP_MEC_ENV_ENC_AES256_GCM, "Cert", partner, NULL, NULL, NULL))
    return soap->error;
  if (soap_wsse_add_BinarySecurityTokenX509(soap, "X509Token", cert) ||
      soap_wsse_add_KeyInfo_SecurityTokenReferenceX509(soap, "#X509Token") ||
      soap_wsse_sign_body(soap, SOAP_SMD_SIGN_RSA_SHA256, key, 0))
    return soap->error;
  return SOAP_OK;
}

int ns__order(struct soap *soap, char *no, char **result) {
  if (is("user") || is("text")) {
    const char *user = soap_wsse_get_Username(soap);
    if (!user || soap_wsse_verify_Password(soap, "secret")) return soap->error ? soap->error : SOAP_FAULT;
  } else if (soap_wsse_verify_Timestamp(soap) || soap_wsse_verify_body(soap)) {
    soap_wsse_delete_Security(soap);
    return soap->error;
  }
  soap_wsse_delete_Security(soap);
  *result = soap_strdup(soap, no);
  soap_wsse_verify_done(soap);
  return protect(soap);
}

int main(int argc, char **argv) {
  struct soap *soap = soap_new1(SOAP_XML_CANONICAL);
  FILE *file;
  char *result = NULL;
  mode = argv[1];
  signal(SIGPIPE, SIG_IGN);
  file = fopen(argv[2], "r");
  key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
  fclose(file);
  cert = read_cert(argv[3]);
  partner = read_cert(argv[4]);
  soap_register_plugin(soap, soap_wsse);
  soap->cafile = argv[4];
  if (is("serve")) {
    if (!is("user") && !is("text")) soap_wsse_verify_auto(soap, SOAP_SMD_NONE, NULL, 0);
    if (is("encrypt"))
      soap_wsse_decrypt_auto(soap, SOAP_MEC_ENV_DEC_AES256_GCM, key, 0);
    int failed = soap_serve(soap);
    if (failed) soap_print_fault(soap, stderr);
    return failed != 0;
  }
  soap->fopen = open_stdout;
  soap->fsend = send_stdout;
  soap->frecv = receive_nothing;
  if (protect(soap)) {
    soap_print_fault(soap, stderr);
    return 1;
  }
  soap_call_ns__order(soap, "http://localhost/", "", "17", &result);
  return 0;
}

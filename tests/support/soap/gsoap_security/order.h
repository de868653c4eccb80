//gsoap ns service name: order
//gsoap ns service namespace: urn:orders
//gsoap ns schema namespace: urn:orders
//gsoap ns schema form: unqualified
#import "wsse.h"
int ns__order(char *no, char **result);

#pragma once

#include <linux/in.h>
#include <linux/types.h>

struct net;

WEFT_KENV_BEGIN
__be32 in_aton(const char *text);
/* 1: the text up to `delimiter` (-1: any character that no address has) is an address, in network order.
 * `length` -1: the text ends with a zero. */
int in4_pton(const char *text, int length, u8 *to, int delimiter, const char **end);
int in6_pton(const char *text, int length, u8 *to, int delimiter, const char **end);
int inet_pton_with_scope(struct net *net, unsigned short family, const char *text, const char *port,
			 struct sockaddr_storage *to);
WEFT_KENV_END

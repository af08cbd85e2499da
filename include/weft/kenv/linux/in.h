#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <linux/types.h>

#define ipv4_is_loopback(address) (((address) & htonl(0xff000000)) == htonl(0x7f000000))
#define ipv4_is_zeronet(address) ((address) == 0)

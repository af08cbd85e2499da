#pragma once

/* Error numbers, with those that a kernel keeps to itself. */

#include_next <linux/errno.h>

#ifndef ERESTARTSYS
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ENOIOCTLCMD 515
#define EPROBE_DEFER 517
#define ENOTSUPP 524
#define EIOCBQUEUED 529
#endif

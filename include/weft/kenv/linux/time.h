#pragma once

#include <linux/ktime.h>
#include <linux/timex.h>

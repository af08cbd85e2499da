#pragma once

#include <linux/in.h>

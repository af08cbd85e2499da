#pragma once

#include "base/process_address.h"

namespace weft::uabi {

using weft::ProcessAddress;

}  // namespace weft::uabi

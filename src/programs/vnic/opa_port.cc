#include "programs/vnic/opa_port.h"

#include <utility>

#include "programs/vnic/datagram_port.h"
#include "programs/vnic/omni_path_port.h"

namespace weft::programs::vnic {

Result<std::unique_ptr<OpaPort>> OpaPort::open(Use use, Handlers handlers) {
  auto found = OmniPathPort::open(use, handlers);
  if (!found && found.error().code == ErrorCode::NotFound) {
    return DatagramPort::open(use, std::move(handlers));
  }
  return found;
}

}  // namespace weft::programs::vnic

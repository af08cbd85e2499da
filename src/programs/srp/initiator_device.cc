#include "programs/srp/initiator_device.h"

#include <utility>

#include "base/assert.h"

namespace weft::programs::srp {

Result<std::unique_ptr<InitiatorDevice>> InitiatorDevice::open(asio::io_context& loop,
                                                               const std::string& name) {
  auto opened = rdma::Host::open(loop, name, "weft-srp");
  if (!opened) {
    return std::unexpected(opened.error());
  }
  std::unique_ptr<InitiatorDevice> made{new InitiatorDevice};
  made->host_ = *std::move(opened);
  const auto pd = core::allocate_pd(made->host_->device(), {}, "srp");
  if (!pd) {
    return std::unexpected(pd.error());
  }
  made->pd_ = *pd;
  made->buffers_ = std::make_unique<BufferPool>(**pd);
  return made;
}

InitiatorDevice::~InitiatorDevice() {
  buffers_.reset();
  if (pd_ != nullptr) {
    const auto gone = core::deallocate_pd(*pd_);
    WEFT_ASSERT(gone, "everything inside was the links'");
  }
}

}  // namespace weft::programs::srp

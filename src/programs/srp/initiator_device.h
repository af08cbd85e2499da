#pragma once

// The RDMA device of an initiator and the memory that targets reach by it, which all paths to a
// unit share: a request goes by whichever is there, and its data stays where it is.

#include <asio/io_context.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "core/pd.h"
#include "programs/rdma/host.h"
#include "programs/srp/buffer_pool.h"

namespace weft::programs::srp {

/// Its buffers: any thread; all else: the loop's.
class InitiatorDevice {
 public:
  /// By the libraries that are found; `name` as libibverbs has it, empty: the first device.
  [[nodiscard]] static Result<std::unique_ptr<InitiatorDevice>> open(asio::io_context& loop,
                                                                     const std::string& name);
  /// No link uses it any more.
  ~InitiatorDevice();
  InitiatorDevice(const InitiatorDevice&) = delete;
  InitiatorDevice& operator=(const InitiatorDevice&) = delete;

  [[nodiscard]] rdma::Host& host() { return *host_; }
  [[nodiscard]] core::Pd& pd() { return *pd_; }
  [[nodiscard]] BufferPool& buffers() { return *buffers_; }
  [[nodiscard]] Guid guid() { return host_->device().attributes().node_guid; }

 private:
  InitiatorDevice() = default;

  std::unique_ptr<rdma::Host> host_;
  core::Pd* pd_{};
  std::unique_ptr<BufferPool> buffers_;
};

}  // namespace weft::programs::srp

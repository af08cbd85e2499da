#include "programs/srp/loop_device.h"

#include <asio/post.hpp>

namespace weft::programs::srp {

/// A request as the disk below sees it; frees itself.
struct LoopDevice::Call final : scsi::BlockClient {
  void handle_block_result(scsi::BlockRequest& /*request*/,
                           const scsi::BlockResult& result) override {
    const std::unique_ptr<Call> self{this};
    scsi::BlockRequest& whose = *original;
    if (std::this_thread::get_id() == device->thread_) {
      whose.client->handle_block_result(whose, result);
      return;
    }
    asio::post(device->loop_,
               [&whose, result] { whose.client->handle_block_result(whose, result); });
  }

  scsi::BlockRequest request;
  scsi::BlockRequest* original{};
  LoopDevice* device{};
};

void LoopDevice::submit(scsi::BlockRequest& request) {
  auto call = std::make_unique<Call>();
  call->request = request;
  call->original = &request;
  call->device = this;
  call->request.client = call.get();
  below_->submit(call.release()->request);
}

}  // namespace weft::programs::srp

#pragma once

// A disk whose results come in the thread of an Asio loop, in which channels of SRP live, whatever
// thread the disk below answers on.

#include <asio/io_context.hpp>
#include <memory>
#include <thread>
#include <utility>

#include "scsi/block_device.h"

namespace weft::programs::srp {

class LoopDevice final : public scsi::BlockDevice {
 public:
  /// Made, and given requests, in the loop's thread; the loop outlives the last request.
  LoopDevice(asio::io_context& loop, std::unique_ptr<scsi::BlockDevice> below)
      : loop_(loop), below_(std::move(below)) {}

  [[nodiscard]] scsi::BlockGeometry geometry() const override { return below_->geometry(); }
  void submit(scsi::BlockRequest& request) override;
  [[nodiscard]] scsi::BlockExtent extent(std::uint64_t lba) const override {
    return below_->extent(lba);
  }

 private:
  struct Call;

  asio::io_context& loop_;
  std::unique_ptr<scsi::BlockDevice> below_;
  const std::thread::id thread_{std::this_thread::get_id()};
};

}  // namespace weft::programs::srp

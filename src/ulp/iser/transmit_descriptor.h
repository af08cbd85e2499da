#pragma once

// Where the headers of a task's PDU are, from the iSCSI layer's writing them until the HCA needs
// them no more: after the response it may still send them again (the seed's iser_tx_desc). One
// thread: that of the connection.

#include <array>
#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "core/device.h"
#include "wire/iscsi/pdu_size.h"
#include "wire/iser/header.h"

namespace weft::iser {

class HeaderMapper;

/// Of a task, and of the request that sends it, whichever lasts longer.
class TransmitDescriptor {
 public:
  /// Of an iSCSI PDU: the basic header segment and what may follow it.
  static constexpr std::size_t kMaxHeaderBytes =
      wire::iscsi::kHeaderBytes + wire::iscsi::kMaxAdditionalHeaderBytes;

  TransmitDescriptor() = default;
  /// Unmaps, if the device is still there.
  ~TransmitDescriptor();
  TransmitDescriptor(const TransmitDescriptor&) = delete;
  TransmitDescriptor& operator=(const TransmitDescriptor&) = delete;

  /// The iSCSI headers' place, behind that of the iSER header.
  [[nodiscard]] MutableByteSpan pdu_headers() {
    return MutableByteSpan{octets_}.subspan(wire::iser::kHeaderBytes);
  }
  /// Takes headers as they go, from the iSER header on; where they are then.
  [[nodiscard]] ByteSpan store(ByteSpan headers);

  [[nodiscard]] bool is_mapped() const { return mapper_ != nullptr; }
  void unmap();

 private:
  friend class HeaderMapper;
  [[nodiscard]] core::ScatterEntry entry() const;

  std::array<std::byte, wire::iser::kHeaderBytes + kMaxHeaderBytes> octets_{};
  HeaderMapper* mapper_{};
};

/// Descriptors of tasks that have ended, for those to come: each is longer than what a heap has at
/// hand. One thread.
class DescriptorPool {
 public:
  /// Goes back when its last holder lets it go; it may outlive the pool.
  [[nodiscard]] std::shared_ptr<TransmitDescriptor> take();

 private:
  using Spares = std::vector<std::unique_ptr<TransmitDescriptor>>;
  std::shared_ptr<Spares> spares_ = std::make_shared<Spares>();
};

/// Shows descriptors to one device. When it goes, which is before the device may, nothing is mapped
/// any more, and descriptors that outlive it touch no device.
class HeaderMapper {
 public:
  explicit HeaderMapper(core::Device& device) : device_(device) {}
  ~HeaderMapper();
  HeaderMapper(const HeaderMapper&) = delete;
  HeaderMapper& operator=(const HeaderMapper&) = delete;

  /// OutOfMemory: the driver refuses. Mapped already: nothing.
  Result<void> map(TransmitDescriptor& descriptor);
  [[nodiscard]] std::size_t mapped() const { return mapped_.size(); }

 private:
  friend class TransmitDescriptor;
  void unmap(TransmitDescriptor& descriptor);

  core::Device& device_;
  std::vector<TransmitDescriptor*> mapped_;
};

}  // namespace weft::iser

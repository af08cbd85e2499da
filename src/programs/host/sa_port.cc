#include "programs/host/sa_port.h"

#include <arpa/inet.h>
#include <infiniband/umad.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "wire/mad/mad.h"
#include "wire/mad/sa_mad.h"

namespace weft::programs {
namespace {

// Policy: how long the port waits for an answer, beyond which the management interface asks again;
// and how many requests may be open.
constexpr int kTimeoutMs = 2'000;
constexpr std::size_t kMostSent = 4'096;
constexpr std::size_t kMethodWords = 128 / (8 * sizeof(long));  // umad_register(3)

[[nodiscard]] wire::MadHeader header_of(const mad::MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(ByteSpan{mad}.first<wire::kSizeOf<wire::MadHeader>>());
}

void set_header(mad::MadBytes& mad, const wire::MadHeader& header) {
  copy_bytes(mad, wire::pack(header));
}

/// Where the port's table has the default partition's key; 0: nowhere, so that the first is taken.
[[nodiscard]] int management_index(const std::string& device, std::uint8_t port) {
  umad_port_t known{};
  if (umad_get_port(device.c_str(), port, &known) != 0) {
    return 0;
  }
  const std::span keys{known.pkeys, known.pkeys == nullptr ? 0 : known.pkeys_size};
  const auto found = std::ranges::find(keys, kDefaultPKey.base(),
                                       [](std::uint16_t key) { return PKey{key}.base(); });
  const auto index = found == keys.end() ? 0 : static_cast<int>(found - keys.begin());
  umad_release_port(&known);
  return index;
}

}  // namespace

Result<SaPort> SaPort::open(const std::string& device, std::uint8_t port) {
  if (umad_init() < 0) {
    return fail(ErrorCode::NoSuchDevice, "libibumad: {}", std::strerror(errno));
  }
  const int opened = umad_open_port(device.c_str(), port);
  if (opened < 0) {
    return fail(ErrorCode::NoSuchDevice, "umad of {} port {}: {}", device, port,
                std::strerror(-opened));
  }
  SaPort made{opened};
  made.agent_ = umad_register(opened, static_cast<int>(wire::ManagementClass::SubnAdm),
                              wire::kSaClassVersion, 0, nullptr);
  if (made.agent_ < 0) {
    return fail(ErrorCode::Io, "an agent of class SubnAdm: {}", std::strerror(-made.agent_));
  }
  made.pkey_index_ = management_index(device, port);
  made.buffer_.resize(umad_size() + wire::kMadBytes);
  return made;
}

SaPort::SaPort(SaPort&& other) noexcept
    : port_(std::exchange(other.port_, -1)),
      agent_(other.agent_),
      pkey_index_(other.pkey_index_),
      report_agent_(other.report_agent_),
      sent_(std::move(other.sent_)),
      buffer_(std::move(other.buffer_)) {}

SaPort::~SaPort() {
  if (port_ >= 0) {
    umad_close_port(port_);
  }
}

bool SaPort::take_reports() {
  std::array<long, kMethodWords> methods{};
  methods.front() = 1L << std::to_underlying(wire::MadMethod::Report);
  report_agent_ = umad_register(port_, static_cast<int>(wire::ManagementClass::SubnAdm),
                                wire::kSaClassVersion, 0, methods.data());
  return report_agent_ >= 0;
}

int SaPort::fd() const { return umad_get_fd(port_); }

void SaPort::send(const mad::MadPacket& packet) {
  const wire::MadHeader header = header_of(packet.bytes);
  const bool is_answer = wire::is_response(header.method);  // to a report
  if (!is_answer) {
    if (sent_.size() >= kMostSent) {
      sent_.erase(sent_.begin());  // the oldest, whose answer is then not taken
    }
    sent_[static_cast<std::uint32_t>(header.transaction_id)] = header.transaction_id;
  }
  std::ranges::fill(buffer_, std::byte{});
  void* const mad = buffer_.data();
  umad_set_addr(mad, static_cast<int>(packet.address.lid.value()),
                static_cast<int>(packet.address.qp.value()), packet.address.sl.value(),
                static_cast<int>(packet.address.qkey.value()));
  umad_set_pkey(mad, pkey_index_);
  copy_bytes(std::span{buffer_}.subspan(umad_size()), packet.bytes);
  umad_send(port_, is_answer ? report_agent_ : agent_, mad, wire::kMadBytes,
            is_answer ? 0 : kTimeoutMs, 0);
}

Result<std::optional<mad::MadPacket>> SaPort::receive() {
  if (umad_poll(port_, 0) == -ETIMEDOUT) {
    return std::nullopt;
  }
  int length = wire::kMadBytes;
  void* const received = buffer_.data();
  const int agent = umad_recv(port_, received, &length, 0);
  if (agent < 0 && agent != -ENOSPC) {
    return fail(ErrorCode::Io, "the fabric's daemon has closed the port: {}",
                std::strerror(-agent));
  }
  mad::MadPacket packet;
  if (agent < 0 || umad_status(received) != 0 || length < static_cast<int>(wire::kMadBytes)) {
    return packet;  // returned unanswered: of no class, which the interface drops
  }
  copy_bytes(packet.bytes, ByteSpan{buffer_}.subspan(umad_size(), wire::kMadBytes));
  wire::MadHeader header = header_of(packet.bytes);
  const auto known = sent_.find(static_cast<std::uint32_t>(header.transaction_id));
  if (known != sent_.end() &&
      wire::is_response(header.method)) {  // and stays: an answer may have many segments (RMPP)
    header.transaction_id = known->second;
    set_header(packet.bytes, header);
  }
  const ib_mad_addr_t* const from = umad_get_mad_addr(received);
  packet.address.lid = Lid{ntohs(from->lid)};
  packet.address.sl = ServiceLevel{from->sl};
  packet.address.qp = Qpn{ntohl(from->qpn)};
  return packet;
}

}  // namespace weft::programs

#include "programs/srp/umad_client.h"

#include <arpa/inet.h>
#include <endian.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/clock.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/mad.h"

namespace weft::programs::srp {
namespace {

constexpr int kTimeoutMs = 1'000;                           // policy: of one try
constexpr int kSaTries = 5;                                 // policy
constexpr int kDeviceTries = 3;                             // policy
constexpr Duration kGrace = Duration::seconds(2);           // policy: beyond all tries
constexpr std::size_t kFirstBytes = std::size_t{64} << 10;  // policy
constexpr std::size_t kMostBytes = std::size_t{16} << 20;   // policy: of one answer
constexpr std::size_t kMostNotices = 1'024;                 // policy; more say nothing new
constexpr int kGsiQp = 1;
constexpr std::uint8_t kDevMgtVersion = 1;  // IBTA vol 1 §16.3.1
constexpr std::uint8_t kKernelRmpp = 1;     // tables of SA come whole
constexpr std::size_t kMethodWords = 16 / sizeof(long);

}  // namespace

Result<std::unique_ptr<UmadClient>> UmadClient::open(const std::string& device, std::uint8_t port) {
  const auto library = UmadLibrary::load();
  if (!library) {
    return std::unexpected(library.error());
  }
  const int opened = (*library)->open_port(device.empty() ? nullptr : device.c_str(), port);
  if (opened < 0) {
    return fail(ErrorCode::NoSuchDevice, "umad of {} port {}: {}",
                device.empty() ? "any device" : device, port, std::strerror(-opened));
  }
  std::unique_ptr<UmadClient> made{
      new UmadClient{**library, opened}
  };
  made->port_.device = device;
  made->port_.number = port;
  if (auto refreshed = made->refresh(); !refreshed) {
    return std::unexpected(refreshed.error());
  }
  const auto agent_of = [&](wire::ManagementClass of, std::uint8_t version, std::uint8_t rmpp) {
    return made->library_.register_agent(opened, static_cast<int>(of), version, rmpp, nullptr);
  };
  made->sa_agent_ = agent_of(wire::ManagementClass::SubnAdm, wire::kSaClassVersion, kKernelRmpp);
  made->device_agent_ = agent_of(wire::ManagementClass::DevMgt, kDevMgtVersion, 0);
  if (made->sa_agent_ < 0 || made->device_agent_ < 0) {
    return fail(ErrorCode::Io, "umad of {} port {} takes no agents", made->port_.device,
                made->port_.number);
  }
  made->buffer_.resize(made->library_.size() + kFirstBytes);
  return made;
}

UmadClient::~UmadClient() { library_.close_port(opened_); }

Result<void> UmadClient::refresh() {
  umad_port_t found{};
  if (library_.get_port(port_.device.empty() ? nullptr : port_.device.c_str(), port_.number,
                        &found) < 0) {
    return fail(ErrorCode::NoSuchDevice, "port {} of {} is gone", port_.number, port_.device);
  }
  port_ = {
      .device = found.ca_name,
      .number = found.portnum,
      .lid = Lid{found.base_lid},
      .sm_lid = Lid{found.sm_lid},
      .sm_sl = ServiceLevel{static_cast<std::uint8_t>(found.sm_sl)},
      .gid = Gid{be64toh(found.gid_prefix), Guid{be64toh(found.port_guid)}},
      .pkeys = {}
  };
  for (const std::uint16_t pkey : std::span{found.pkeys, found.pkeys_size}) {
    port_.pkeys.emplace_back(pkey);
  }
  library_.release_port(&found);
  if (!port_.sm_lid.is_unicast()) {
    return fail(ErrorCode::TryAgain, "port {} of {} has no subnet manager yet", port_.number,
                port_.device);
  }
  return {};
}

void UmadClient::send(int agent, const Destination& to, ByteSpan mad, int retries) {
  const std::size_t header = library_.size();
  std::ranges::fill(std::span{buffer_}.first(header + wire::kMadBytes), std::byte{});
  void* const envelope = buffer_.data();
  library_.set_addr(envelope, static_cast<int>(to.lid.value()), kGsiQp, to.sl.value(),
                    static_cast<int>(kGsiQKey.value()));
  const auto pkey = std::ranges::find(port_.pkeys, to.pkey.base(), &PKey::base);
  const bool has_pkey = to.pkey.is_valid() && pkey != port_.pkeys.end();
  library_.set_pkey(envelope, has_pkey ? static_cast<int>(pkey - port_.pkeys.begin()) : 0);
  copy_bytes(std::span{buffer_}.subspan(header), mad);
  library_.send(opened_, agent, envelope, wire::kMadBytes, kTimeoutMs, retries);
}

/// None: the time is over.
Result<std::optional<UmadClient::Received>> UmadClient::receive(Instant until) {
  const std::size_t header = library_.size();
  for (;;) {
    const std::int64_t left_ms = (until - os::now()).nanoseconds() / 1'000'000;
    if (left_ms <= 0) {
      return std::nullopt;
    }
    int length = static_cast<int>(buffer_.size() - header);
    const int agent = library_.recv(opened_, buffer_.data(), &length, static_cast<int>(left_ms));
    if (agent == -ETIMEDOUT || agent == -EINTR || agent == -EAGAIN) {
      continue;
    }
    const std::size_t bytes = length < 0 ? 0 : static_cast<std::size_t>(length);
    if (agent == -ENOSPC && bytes <= kMostBytes && header + bytes > buffer_.size()) {
      buffer_.resize(header + bytes);
      continue;
    }
    if (agent < 0) {
      return fail(ErrorCode::Io, "the umad port is closed: {}", std::strerror(-agent));
    }
    const ByteSpan mad =
        ByteSpan{buffer_}.subspan(header, std::min(bytes, buffer_.size() - header));
    return Received{
        .status = library_.status(buffer_.data()), .mad = {mad.begin(), mad.end()}
    };
  }
}

/// True: it was one, and is answered. The address is still in the buffer.
bool UmadClient::take_report(const Received& received) {
  constexpr std::size_t kData = wire::kSizeOf<wire::SaHeader>;
  if (received.status != 0 || received.mad.size() < wire::kMadBytes) {
    return false;
  }
  const ByteSpan mad = received.mad;
  wire::MadHeader header = *wire::parse<wire::MadHeader>(mad);
  if (header.mgmt_class != wire::ManagementClass::SubnAdm ||
      header.method != wire::MadMethod::Report || header.attribute_id != wire::kAttributeNotice) {
    return false;
  }
  if (notices_.size() < kMostNotices) {
    notices_.push_back(*wire::parse<wire::SaNotice>(mad.subspan(kData)));
  }
  header.method = wire::MadMethod::ReportResp;
  header.status = 0;
  copy_bytes(std::span{buffer_}.subspan(library_.size()), wire::pack(header));
  library_.get_mad_addr(buffer_.data())->qkey = htonl(kGsiQKey.value());
  library_.send(opened_, report_agent_, buffer_.data(), wire::kMadBytes, 0, 0);
  return true;
}

Result<std::vector<std::byte>> UmadClient::exchange(int agent, const Destination& to,
                                                    ByteSpan request, int tries) {
  std::array<std::byte, wire::kMadBytes> mad{};
  copy_bytes(mad, request);
  wire::MadHeader header = *wire::parse<wire::MadHeader>(mad);
  header.transaction_id = next_transaction_++;  // the upper half is the kernel's
  copy_bytes(mad, wire::pack(header));
  send(agent, to, mad, tries - 1);
  const Instant until = os::now() + Duration::milliseconds(kTimeoutMs) * tries + kGrace;
  for (;;) {
    auto received = receive(until);
    if (!received) {
      return std::unexpected(received.error());
    }
    if (!*received) {
      return fail(ErrorCode::TimedOut, "LID {} does not answer", to.lid.value());
    }
    const auto said = wire::parse<wire::MadHeader>((*received)->mad);
    if (take_report(**received) || !said ||
        static_cast<std::uint32_t>(said->transaction_id) !=
            static_cast<std::uint32_t>(header.transaction_id)) {
      continue;  // a late answer to what was asked before
    }
    if ((*received)->status != 0) {
      return fail(ErrorCode::TimedOut, "LID {} does not answer: {}", to.lid.value(),
                  std::strerror((*received)->status));
    }
    return std::move((**received).mad);
  }
}

Result<std::vector<std::byte>> UmadClient::ask_sa(wire::MadMethod method,
                                                  wire::SaAttribute attribute, std::uint64_t mask,
                                                  ByteSpan record) {
  wire::SaMad request;
  request.sa.header.method = method;
  request.sa.header.attribute_id = std::to_underlying(attribute);
  request.sa.component_mask = mask;
  copy_bytes(request.data, record);
  auto answer = exchange(sa_agent_, {.lid = port_.sm_lid, .sl = port_.sm_sl, .pkey = {}},
                         wire::pack(request), kSaTries);
  if (!answer) {
    return fail(answer.error().code, "SA: {}", answer.error().reason);
  }
  const auto header = wire::parse<wire::SaHeader>(*answer);
  if (!header) {
    return fail(ErrorCode::Io, "SA: {}", header.error().reason);
  }
  const bool is_empty = header->header.status == std::to_underlying(wire::SaStatus::NoRecords);
  if (header->header.status != 0 && !(is_empty && method == wire::MadMethod::GetTable)) {
    return fail(is_empty ? ErrorCode::NotFound : ErrorCode::Io, "SA: {}",
                wire::status_text(wire::ManagementClass::SubnAdm, header->header.status));
  }
  if (is_empty) {
    answer->resize(wire::kSizeOf<wire::SaHeader>);
  }
  return answer;
}

Result<wire::PathRecord> UmadClient::get_path(const Gid& to) {
  using Record = wire::PathRecord;
  const Record wanted{.dgid = to, .sgid = port_.gid, .reversible = true, .path_count = 1};
  const std::uint64_t mask = wire::kComponent<Record, "DGID"> | wire::kComponent<Record, "SGID"> |
                             wire::kComponent<Record, "Reversible"> |
                             wire::kComponent<Record, "NumbPath">;
  const auto answer =
      ask_sa(wire::MadMethod::Get, wire::SaAttribute::PathRecord, mask, wire::pack(wanted));
  if (!answer) {
    return std::unexpected(answer.error());
  }
  return wire::parse<Record>(ByteSpan{*answer}.subspan(wire::kSizeOf<wire::SaHeader>));
}

Result<wire::DevMgtMad> UmadClient::ask(const wire::PathRecord& path,
                                        const wire::DevMgtMad& request) {
  const auto answer = exchange(device_agent_, {.lid = path.dlid, .sl = path.sl, .pkey = path.pkey},
                               wire::pack(request), kDeviceTries);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  auto response = wire::parse<wire::DevMgtMad>(*answer);
  if (response) {
    response->header.transaction_id = request.header.transaction_id;  // as it was asked
  }
  return response;
}

Result<void> UmadClient::subscribe(wire::Trap trap) {
  if (report_agent_ < 0) {
    std::array<long, kMethodWords> methods{};
    methods[0] = 1L << std::to_underlying(wire::MadMethod::Report);
    report_agent_ =
        library_.register_agent(opened_, static_cast<int>(wire::ManagementClass::SubnAdm),
                                wire::kSaClassVersion, 0, methods.data());
    if (report_agent_ < 0) {
      return fail(ErrorCode::Busy, "another program of this host hears SA's reports: {}",
                  std::strerror(-report_agent_));
    }
  }
  constexpr std::uint16_t kAllTypes = 0xFFFF;
  constexpr std::uint32_t kAllProducers = 0xFF'FFFF;
  constexpr std::uint8_t kResponseTime = 18;  // about 1 s
  const wire::InformInfo wanted{.lid_range_begin = kPermissiveLid,
                                .is_generic = 1,
                                .subscribe = 1,
                                .type = kAllTypes,
                                .trap_number = std::to_underlying(trap),
                                .qpn = Qpn{kGsiQp},
                                .resp_time_value = kResponseTime,
                                .producer_type = kAllProducers};
  const auto answer =
      ask_sa(wire::MadMethod::Set, wire::SaAttribute::InformInfo, 0, wire::pack(wanted));
  return answer ? Result<void>{} : std::unexpected(answer.error());
}

Result<std::optional<wire::SaNotice>> UmadClient::await_notice(Duration within) {
  const Instant until = os::now() + within;
  while (notices_.empty()) {
    const auto received = receive(until);
    if (!received) {
      return std::unexpected(received.error());
    }
    if (!*received) {
      return std::nullopt;
    }
    static_cast<void>(take_report(**received));  // anything else is late
  }
  const wire::SaNotice notice = notices_.front();
  notices_.pop_front();
  return notice;
}

}  // namespace weft::programs::srp

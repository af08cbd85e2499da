#include "programs/iser/iser_link.h"

#include <asio/post.hpp>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "programs/iser/live_cm_id.h"
#include "programs/rdma/host.h"
#include "programs/rdma/slab_pool.h"
#include "ulp/iser/initiator_datamover.h"

namespace weft::programs::iser {

using weft::iser::InitiatorDatamover;

namespace {

/// A buffer of a slab; of the heap where there is no room for one.
[[nodiscard]] weft::iscsi::SharedBuffer allocate(const std::shared_ptr<rdma::SlabPool>& slabs,
                                                 std::size_t bytes) {
  auto lease = slabs->take(bytes);
  if (!lease) {
    return weft::iscsi::SharedBuffer{bytes};
  }
  std::byte* const octets = (*lease)->octets().data();
  const auto give_back = [slabs](rdma::SlabPool::Buffer* buffer) {
    rdma::SlabPool::Return{slabs.get()}(buffer);
  };
  const std::shared_ptr<rdma::SlabPool::Buffer> owner{lease->release(), give_back};
  return {
      std::shared_ptr<std::byte[]>{owner, octets},
      bytes
  };
}

constexpr Duration kLongestEnding = Duration::seconds(5);  // policy: an end takes milliseconds

/// A connection, and what stands between it and the session: the session's timers are looked at
/// after each event.
struct Connection final : weft::iscsi::DatamoverClient {
  Connection(weft::iscsi::DatamoverClient& to, std::function<void()> after)
      : client(&to), settled(std::move(after)) {}

  void handle_pdu(const weft::iscsi::ReceivedPdu& pdu, Instant now) override {
    if (client != nullptr) {
      client->handle_pdu(pdu, now);
      settled();
    }
  }
  void handle_data_fetched(std::uint32_t tag, Instant now) override {
    if (client != nullptr) {
      client->handle_data_fetched(tag, now);
    }
  }
  void handle_agreed(Instant now) override {
    if (client != nullptr) {
      client->handle_agreed(now);
      settled();
    }
  }
  void handle_lost(std::string_view reason, Instant now) override {
    if (weft::iscsi::DatamoverClient* const to = std::exchange(client, nullptr)) {
      to->handle_lost(reason, now);
      settled();
    }
  }

  weft::iscsi::DatamoverClient* client;
  std::string address;
  iscsi::Link::Connected connected;
  std::function<void()> settled;
  std::unique_ptr<InitiatorDatamover> datamover;
  const std::shared_ptr<char> alive = std::make_shared<char>();  // for what the loop runs late
};

class IserLink final : public iscsi::Link {
 public:
  IserLink(asio::io_context& loop, weft::iser::ConnectionOptions options)
      : loop_(loop), options_(std::move(options)) {}
  ~IserLink() override;

  void connect(const std::string& address, weft::iscsi::DatamoverClient& client,
               Connected connected, std::function<void()> settled) override;
  void abandon() override;
  void flush() override {}

 private:
  void begin(std::unique_ptr<Connection> connection);
  [[nodiscard]] Result<void> open_host();
  [[nodiscard]] Result<void> begin_connecting();
  void fail_connecting(const std::string& reason);
  void forget();

  asio::io_context& loop_;
  const weft::iser::ConnectionOptions options_;
  std::unique_ptr<rdma::Host> host_;
  std::unique_ptr<core::Work> free_work_;
  std::unique_ptr<weft::iser::Initiator> initiator_;
  std::unique_ptr<weft::iser::SessionBinding> binding_;
  std::unique_ptr<Connection> connection_;  // until it has gone
  std::unique_ptr<Connection> next_;        // to be begun then
  std::unique_ptr<Connection> gone_;
};

IserLink::~IserLink() {
  abandon();  // one that waits for its turn
  abandon();
  if (host_ == nullptr) {
    return;
  }
  core::Environment& environment = host_->environment();
  const auto has_ended = [this] {
    return (connection_ == nullptr || connection_->datamover == nullptr) &&
           initiator_->connections() == 0;
  };
  const bool ended = environment.wait_until(has_ended, environment.now() + kLongestEnding);
  WEFT_ASSERT(ended, "every request of a QP in error completes");
  free_work_->flush();
  binding_.reset();
}

void IserLink::connect(const std::string& address, weft::iscsi::DatamoverClient& client,
                       Connected connected, std::function<void()> settled) {
  auto connection = std::make_unique<Connection>(client, std::move(settled));
  connection->address = address;
  connection->connected = std::move(connected);
  if (connection_ != nullptr) {
    next_ = std::move(connection);  // the session's connection is stopped before it is bound again
  } else {
    begin(std::move(connection));
  }
}

void IserLink::begin(std::unique_ptr<Connection> connection) {
  connection_ = std::move(connection);
  if (const auto begun = begin_connecting(); !begun) {
    fail_connecting(begun.error().reason);
  }
}

// Not from inside: the session is told as of any other failure.
void IserLink::fail_connecting(const std::string& reason) {
  asio::post(loop_, [this, reason, alive = std::weak_ptr{connection_->alive}] {
    if (alive.expired()) {
      return;  // and so may be the link
    }
    const std::unique_ptr<Connection> failed = std::move(connection_);
    if (next_ != nullptr) {
      begin(std::move(next_));
    }
    if (const auto told = std::exchange(failed->connected, {})) {
      told(nullptr, reason);
      failed->settled();
    }
  });
}

Result<void> IserLink::open_host() {
  if (host_ != nullptr) {
    return {};
  }
  auto opened = rdma::Host::open(loop_, {}, "weft-iser");
  if (!opened) {
    return std::unexpected(opened.error());
  }
  host_ = *std::move(opened);
  core::Environment& environment = host_->environment();
  free_work_ = std::make_unique<core::Work>(environment, core::WorkContext::UnboundWorkQueue, 0,
                                            [this] { gone_.reset(); });
  initiator_ = std::make_unique<weft::iser::Initiator>(
      environment,
      [this](weft::iser::CmHandler& handler) -> Result<std::unique_ptr<weft::iser::CmId>> {
        return LiveCmId::create(host_->environment(), host_->cm(), handler);
      });
  binding_ = std::make_unique<weft::iser::SessionBinding>(*initiator_);
  return {};
}

Result<void> IserLink::begin_connecting() {
  if (auto opened = open_host(); !opened) {
    return opened;
  }
  Connection& connection = *connection_;
  auto datamover = std::make_unique<InitiatorDatamover>(host_->environment(), *binding_, options_,
                                                        [this] { forget(); });
  datamover->set_client(connection);
  auto begun = datamover->connect(connection.address, [&connection](const std::string& reason) {
    const auto told = std::exchange(connection.connected, {});
    if (!told) {
      return;
    }
    if (reason.empty()) {
      told(connection.datamover.get(), {});
    } else {
      connection.client = nullptr;
      told(nullptr, reason);
    }
    connection.settled();
  });
  if (begun) {
    connection.datamover = std::move(datamover);
  }
  return begun;
}

void IserLink::abandon() {
  if (next_ != nullptr) {
    next_.reset();
  } else if (connection_ != nullptr) {
    connection_->client = nullptr;
    connection_->connected = {};
    if (connection_->datamover != nullptr) {
      connection_->datamover->abandon();
    }
  }
}

void IserLink::forget() {
  gone_ = std::move(connection_);
  free_work_->queue();  // it is still inside the datamover
  if (next_ != nullptr) {
    begin(std::move(next_));
  }
}

}  // namespace

iscsi::LinkKind iser_links(weft::iscsi::HelloPolicy hello) {
  const auto slabs = std::make_shared<rdma::SlabPool>();
  const auto kept_memory = [slabs](std::uint64_t address, std::uint64_t bytes) {
    const auto found = slabs->extent_of(address, bytes);
    return found ? std::optional<weft::iser::KeptMemory>{{.address = std::bit_cast<std::uint64_t>(
                                                              found->memory.data()),
                                                          .length = found->memory.size(),
                                                          .holder = found->holder}}
                 : std::nullopt;
  };
  const weft::iser::ConnectionOptions options{.receive_data_bytes = 8'192,
                                              .hello = hello,
                                              .cq_lingers = rdma::kCqLingers,
                                              .kept_memory = kept_memory};
  return {.make = [options](asio::io_context& loop) -> std::unique_ptr<iscsi::Link> {
            return std::make_unique<IserLink>(loop, options);
          },
          .allocate = [slabs](std::size_t bytes) { return allocate(slabs, bytes); }};
}

}  // namespace weft::programs::iser

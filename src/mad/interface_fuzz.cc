// An interface with agents and transactions that receives arbitrary MADs at any time. Checks that
// invariants and limits hold and that each transaction completes exactly once.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mad/management_interface.h"
#include "mad/testing/script.h"

namespace weft::mad {
namespace {

using wire::MadMethod;
using wire::ManagementClass;

constexpr Limits kLimits{.agents = 4,
                         .transactions = 6,
                         .in_flight = 3,
                         .served_exchanges = 3,
                         .queued_mads = 24,
                         .rmpp_message_bytes = 2'000,
                         .rmpp_total_bytes = 3'000,
                         .rmpp_window = 4};
constexpr ManagementClass kVendor{0x30};
constexpr std::array kClasses = {ManagementClass::SubnAdm, ManagementClass::Perf, kVendor,
                                 ManagementClass::ComMgt};
constexpr std::array kMethods = {MadMethod::Get,      MadMethod::Set,         MadMethod::GetTable,
                                 MadMethod::GetMulti, MadMethod::Trap,        MadMethod::GetResp,
                                 MadMethod::Send,     MadMethod::GetTableResp};

class Game final : public MadHandler {
 public:
  explicit Game(Script& script) : script_(script) {
    for (const ManagementClass mgmt_class : kClasses) {
      Registration registration{
          .mgmt_class = mgmt_class,
          .methods = methods({MadMethod::Get, MadMethod::GetTable, MadMethod::GetMulti,
                              MadMethod::Trap, MadMethod::Send})};
      if (mgmt_class == kVendor) {
        registration.oui = 0;
      }
      agents_.push_back(*interface_->register_agent(registration, this));
    }
  }

  void play() {
    constexpr unsigned kLook = 4;  // checking everything costs as much as a move
    for (unsigned moves = 1; !script_.is_over() && moves < 400; ++moves) {
      move();
      if (moves % kLook == 0) {
        interface_->check_invariants();
      }
    }
    interface_->check_invariants();
    interface_.reset();
    for (const auto& [transaction, ends] : ends_) {
      require(ends == 1);
    }
  }

  const MadMessage* handle(MadRequest& request) override {
    const std::uint8_t choice = script_.next();
    switch (choice % 5) {
      case 0:
        return nullptr;
      case 1: {
        auto deferral = request.defer();
        if (deferral) {
          deferrals_.push_back(*deferral);
        }
        return nullptr;
      }
      case 2:
        request.message.is_rmpp = true;
        request.message.data.resize(std::size_t{script_.next()} * 9);
        return &request.message;
      default:
        request.message.set_status(choice);
        return &request.message;
    }
  }

 private:
  void move() {
    switch (script_.next() % 8) {
      case 0:
        return ask();
      case 1:
        return cancel();
      case 2:
        now_ = now_ + Duration::milliseconds(script_.next() * 10);
        return interface_->handle_timeout(now_);
      case 3:
        if (interface_->deadline() != Instant::never()) {
          now_ = std::max(now_, interface_->deadline());
          interface_->handle_timeout(now_);
        }
        return;
      case 4:
        return respond();
      case 5:
        while (const auto packet = interface_->poll_transmit(now_)) {
          last_sent_ = *packet;
        }
        return;
      case 6:
        return reflect();
      default:
        return bring();
    }
  }

  void ask() {
    MadMessage request = message();
    TransactionOptions options{.timeout = Duration::milliseconds(100), .retries = 2};
    options.expects_answer = script_.next() % 4 != 0;
    request.is_rmpp = script_.next() % 3 == 0;
    request.data.resize(request.is_rmpp ? script_.next() * 4U : 0);
    const auto agent = agents_[script_.next() % agents_.size()];
    const auto transaction = interface_->send(
        agent, {.lid = Lid{2}}, std::move(request), options,
        [this](const Completion& completion) {
          require(++ends_[completion.transaction] == 1);
          require((completion.status == TransactionStatus::Answered) ==
                  (completion.answer != nullptr));
        },
        now_);
    if (transaction) {
      ends_.try_emplace(*transaction, 0);
    } else {
      require(!transaction.error().reason.empty());
    }
  }

  void cancel() {
    const TransactionId transaction{script_.next()};
    const bool is_open = ends_.contains(transaction) && ends_.at(transaction) == 0;
    require(interface_->cancel(transaction, now_).has_value() == is_open);
  }

  void respond() {
    if (!deferrals_.empty()) {
      const Deferral deferral = deferrals_.back();
      deferrals_.pop_back();
      MadMessage answer = message();
      answer.is_rmpp = script_.next() % 2 == 0;
      answer.data.resize(answer.is_rmpp ? script_.next() * 5U : 0);
      (void)interface_->respond(deferral, std::move(answer), now_);
    }
  }

  [[nodiscard]] MadMessage message() {
    MadMessage message;
    wire::MadHeader header{.mgmt_class = kClasses[script_.next() % kClasses.size()],
                           .method = kMethods[script_.next() % kMethods.size()],
                           .attribute_id = script_.next()};
    const std::uint8_t tid = script_.next();
    header.transaction_id = std::uint64_t{tid} >> 4 << 32 | (tid & 0xFU);
    message.set_header(header);
    return message;
  }

  /// Returns the last MAD sent, modified into a response or an ACK.
  void reflect() {
    MadMessage message{.mad = last_sent_.bytes};
    wire::MadHeader header = message.header();
    header.method = static_cast<MadMethod>(static_cast<std::uint8_t>(header.method) ^ 0x80U);
    header.status = script_.next() % 4 == 0 ? script_.next() : std::uint8_t{};
    message.set_header(header);
    if (has_rmpp_header(header.mgmt_class)) {
      add_rmpp(message);
    }
    interface_->handle_mad(last_sent_.address, message.mad, now_);
  }

  void add_rmpp(MadMessage& message) {
    const std::uint8_t flags = script_.next();
    set_rmpp(message.mad,
             {.version = static_cast<std::uint8_t>((flags & 0x40) != 0 ? script_.next() : 1),
              .type = static_cast<wire::RmppType>(script_.next() % 6),
              .response_time = 0,
              .is_last = (flags & 1) != 0,
              .is_first = (flags & 2) != 0,
              .is_active = (flags & 4) != 0,
              .status = static_cast<wire::RmppStatus>((flags & 8) != 0 ? script_.next() : 0),
              .data1 = script_.next(),
              .data2 = script_.next()});
  }

  void bring() {
    MadMessage foreign = message();
    wire::MadHeader header = foreign.header();
    const std::uint8_t flags = script_.next();
    header.base_version = (flags & 1) != 0 ? script_.next() : std::uint8_t{1};
    header.class_version = (flags & 2) != 0 ? script_.next() : std::uint8_t{1};
    header.mgmt_class =
        (flags & 4) != 0 ? static_cast<ManagementClass>(script_.next()) : header.mgmt_class;
    header.method = (flags & 8) != 0 ? static_cast<MadMethod>(script_.next()) : header.method;
    foreign.set_header(header);
    if (has_rmpp_header(header.mgmt_class) && (flags & 16) != 0) {
      add_rmpp(foreign);
    }
    MadAddress source{.lid = Lid{2U + flags % 2}};
    if ((flags & 32) != 0) {
      source.global = GlobalRoute{
          .dgid = Gid{kDefaultGidPrefix, Guid{script_.next()}}
      };
    }
    const std::size_t size = (flags & 64) != 0 ? script_.next() : foreign.mad.size();
    interface_->handle_mad(source, ByteSpan{foreign.mad}.first(size), now_);
  }

  Script& script_;
  std::optional<ManagementInterface> interface_{std::in_place, InterfaceKind::Gsi, kLimits};
  std::vector<AgentId> agents_;
  std::vector<Deferral> deferrals_;
  std::map<TransactionId, int> ends_;
  MadPacket last_sent_;
  Instant now_;
};

}  // namespace
}  // namespace weft::mad

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::mad::Script script{
      std::span{data, size}
  };
  weft::mad::Game{script}.play();
  return 0;
}

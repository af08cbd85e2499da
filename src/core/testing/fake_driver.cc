#include "core/testing/fake_driver.h"

#include <utility>

namespace weft::core::testing {

struct FakeOperations {
  static void deallocated(Device& device) { ++driver_of(device).freed; }
  static Result<DeviceAttributes> query_device(Device& device) {
    return driver_of(device).attributes;
  }
  static Result<PortDescription> query_port(Device& device, PortNumber /*port*/) {
    return driver_of(device).port;
  }
  static Result<Gid> query_gid(Device& device, PortNumber /*port*/, std::uint32_t index) {
    const std::vector<Gid>& gids = driver_of(device).gids;
    return index < gids.size() ? gids[index] : Gid{};
  }
  static Result<PKey> query_pkey(Device& device, PortNumber /*port*/, std::uint32_t index) {
    const std::vector<PKey>& pkeys = driver_of(device).pkeys;
    return index < pkeys.size() ? pkeys[index] : PKey{};
  }
  static void remove_gid(const GidEntry& entry) {
    driver_of(entry.device()).removed_gids.push_back(entry.gid());
  }
  static Result<void> create_cq(Cq& cq, std::uint32_t /*entries*/, UserData* /*user_data*/) {
    driver_of(cq.device()).cqs_[&cq];
    return {};
  }
  static Result<void> destroy_cq(Cq& cq) {
    driver_of(cq.device()).cqs_.erase(&cq);
    return {};
  }
  static unsigned poll_cq(Cq& cq, std::span<Wc> into) {
    FakeDriver::FakeCq& fake = driver_of(cq.device()).fake(cq);
    ++fake.polls;
    unsigned count = 0;
    for (; count < into.size() && !fake.wr_ids.empty(); ++count) {
      into[count] = Wc{};
      into[count].wr_id = fake.wr_ids.front();
      fake.wr_ids.pop_front();
    }
    return count;
  }
  static Result<bool> request_notify(Cq& cq, NotifyFlags flags) {
    FakeDriver::FakeCq& fake = driver_of(cq.device()).fake(cq);
    fake.is_armed = true;
    return flags.has(NotifyFlag::ReportMissedEvents) && !fake.wr_ids.empty();
  }
};

namespace {

Result<PortImmutable> get_port_immutable(Device& device, PortNumber /*port*/) {
  return PortImmutable{.pkey_table_length = 4,
                       .gid_table_length = 4,
                       .capabilities = driver_of(device).port_capabilities};
}

}  // namespace

FakeDriver& driver_of(Device& device) { return *static_cast<FakeDriver*>(device.driver_data()); }

FakeDriver::FakeDriver(Registry& registry, PortCapabilities ports, void (*change)(DeviceInit&))
    : port_capabilities(ports), registry_(registry) {
  using Fake = FakeOperations;
  port.state = verbs::PortState::Active;
  port.lid = Lid{1};
  attributes.capabilities = DeviceCapability::LocalDmaLkey;
  attributes.local_dma_lkey = 0x100;
  attributes.max_cqe = 1'000;
  DeviceInit init;
  init.driver_data = this;
  init.port_count = 2;
  init.completion_vectors = 4;
  DeviceOperations& operations = init.operations;
  operations.driver_id = kDriverId;
  operations.query_device = Fake::query_device;
  operations.query_port = Fake::query_port;
  operations.get_port_immutable = get_port_immutable;
  operations.query_gid = Fake::query_gid;
  operations.query_pkey = Fake::query_pkey;
  operations.remove_gid = Fake::remove_gid;
  operations.create_cq = Fake::create_cq;
  operations.destroy_cq = Fake::destroy_cq;
  operations.poll_cq = Fake::poll_cq;
  operations.request_notify = Fake::request_notify;
  operations.allocate_pd = [](Pd&, UserData*) { return Result<void>{}; };
  operations.deallocate_pd = [](Pd&, UserData*) { return Result<void>{}; };
  operations.create_ah = [](Ah&, const AhAttributes&, AhFlags, UserData*) {
    return Result<void>{};
  };
  operations.destroy_ah = [](Ah&, AhFlags) { return Result<void>{}; };
  if (change != nullptr) {
    change(init);
  }
  device_ = registry.allocate_device(std::move(init));
}

FakeDriver::~FakeDriver() {
  if (freed == 0) {
    registry_.deallocate_device(*device_);
  }
}

void FakeDriver::complete(Cq& cq, const CompletionHandler* handler) {
  FakeCq& made = fake(cq);
  made.wr_ids.push_back(handler != nullptr ? wr_id_of(*handler) : 0);
  if (std::exchange(made.is_armed, false)) {
    cq.notify();
  }
}

void FakeDriver::with_deallocation(DeviceInit& init) {
  init.operations.deallocate_driver = FakeOperations::deallocated;
}

}  // namespace weft::core::testing

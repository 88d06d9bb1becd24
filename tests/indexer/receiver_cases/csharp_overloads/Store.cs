namespace Acme
{
  interface IStore
  {
    int Run(string text, params object[] rest);
    T Get<[Shown(1)] T>(object key);
  }

  partial class Store : IStore
  {
    public int Run(string text, params object[] rest)
    {
      return Get<int>(text);
    }

    public T Get<[Shown(1)] T>(object key)
    {
      return default(T);
    }
  }

  class Use
  {
    public void First(Store store)
    {
      store.Run("", 1, 2);
      store.Get<int>(1);
      store.Clean();
    }

    public void Second(IStore store)
    {
      store.Run("");
    }

    public void Third(dynamic any)
    {
      Pick(one => one.Run(""));
    }

    void Pick(System.Action<IStore> picked)
    {
    }
  }
}

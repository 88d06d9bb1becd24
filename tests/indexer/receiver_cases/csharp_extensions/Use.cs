using System.Collections.Generic;
using System.Linq;

namespace Acme
{
  class Use
  {
    public bool First(Value value)
    {
      return value.IsName();
    }

    public string Second(string text)
    {
      return text.Quoted().Quoted();
    }

    public void Third(List<Token> tokens)
    {
      tokens.Head();
      Enumerable.Empty<int>();
    }

    public object Fourth()
    {
      return new Token();
    }

    object Token()
    {
      return null;
    }
  }
}
